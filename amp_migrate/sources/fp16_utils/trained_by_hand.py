"""Files that cast a model and train it without a wrapper, beside others that have one.

    model.half()
    ...
    loss = loss * args.loss_scale
    loss.backward()
    give_gradients(masters, model)

The cast would go with those of the other files, and the training would go on in float32, with its own scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Lowering
from amp_migrate.rules.half import UNKNOWN_TRAINER
from amp_migrate.sources.fp16_utils.casts import Casts
from amp_migrate.sources.fp16_utils.names import METHODS, is_backward, makes_wrapper


def trained_by_hand(
    facts: Facts,
    casts: Casts,
    lowering: Lowering,
    statements: Iterable[Statement],
    is_gone: Callable[[Statement], bool],
) -> Iterator[Refusal]:
    """A refusal for each such file, at its cast."""
    with_form: set[Function] = set()
    with_plain: set[Function] = set()
    for statement in statements:
        root = facts.tree.root_of(statement.node)
        if makes_wrapper(facts, statement):
            with_form.add(root)
        for call in facts.tree.calls(statement):
            if is_backward(facts, call) or called_name(call) in METHODS or call in lowering.replaced:
                with_form.add(root)
            elif _is_plain_backward(call) and not is_gone(statement):
                with_plain.add(root)
    alone = with_plain - with_form
    for call in casts.of_models():
        if facts.tree.root_of(call) in alone:
            alone.remove(facts.tree.root_of(call))
            message = f"what {facts.text(call)} makes half is trained in this file, with no FP16_Optimizer"
            yield Refusal(UNKNOWN_TRAINER, call, message, case="no wrapper")


def _is_plain_backward(call: cst.Call) -> bool:
    return called_name(call) == "backward" and isinstance(call.func, cst.Attribute)
