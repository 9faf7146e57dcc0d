"""Trainings in half of which no optimizer is understood: they are left alone by name, never in silence (rule J6).

model.half()
loss.backward()
for w in model.parameters():
w.data -= lr * w.grad.data              the script's own optimizer

(loss * 2 ** self.lg_loss_scale).backward()     a loss scale, and most often master copies, by hand

self.mp_trainer.backward(loss)              a class of another file that does the same
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.elsewhere import shown
from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.findings import Refusal
from amp_migrate.rules.half import OWN_SCALE, UNKNOWN_HALF_USER, UNKNOWN_TRAINER
from amp_migrate.sources.fp16_utils.names import program_statements
from amp_migrate.sources.half.casts import Casts
from amp_migrate.sources.half.scale import looks_like_scale
from amp_migrate.sources.tests import is_in_test

_HALF = frozenset("half float16 HalfTensor fp16 use_fp16".split())
_SCALES = re.compile(rb"\*\s*(?:self\.)?(?:cur_|lg_)?loss_scale|convert_to_fp16|\.half\(\)")
_BACKWARD = re.compile(rb"\.backward\(")


def unread_training(facts: Facts, casts: Casts) -> tuple[list[cst.CSTNode], Refusal] | None:
    """The sites of such a training, with what cannot be read of it; None where nothing is trained in half.

    `casts` are known to be of no model that an optimizer is known to train. Copies of apex's FP16_Optimizer are the
    business of those who use them.
    """
    calls = [(one, part) for one in program_statements(facts) for part in _calls(facts, one)]
    backwards = [(one, call) for one, call in calls if called_name(call) == "backward" and not is_in_test(facts, one)]
    scaled = [call for _, call in backwards if _is_scaled(facts, call)]
    if scaled and _speaks_of_half(facts):
        text = facts.text(scaled[0])
        message = f"{text} scales the loss by hand, and what steps on these gradients was not found"
        return [*scaled, *_of_models(facts, casts)], Refusal(OWN_SCALE, scaled[0], message)
    for _, call in backwards:
        maker = _own_trainer(facts, call)
        if maker is not None:
            message = f"{facts.text(call)} is done by {maker}, which trains in half by hand"
            return [call], Refusal(UNKNOWN_HALF_USER, call, message)
    sites = _of_models(facts, casts) if backwards and _updates(facts, calls) else []
    if sites and not casts.modules.trained:
        text = " ".join(facts.text(sites[0]).split()) if isinstance(sites[0], cst.Call) else "half() of this class"
        message = (
            f"{text} casts to half in a file that trains, and which optimizer steps on these weights was not found"
        )
        return sites, Refusal(UNKNOWN_TRAINER, sites[0], message)
    return None


def _calls(facts: Facts, statement: Statement) -> Iterator[cst.Call]:
    yield from facts.tree.calls(statement)


def _is_scaled(facts: Facts, call: cst.Call) -> bool:
    """`(loss * loss_scale).backward()`: by its name, since numbers may be weights."""
    loss = call.func.value if isinstance(call.func, cst.Attribute) else None
    if not isinstance(loss, cst.BinaryOperation) or not isinstance(loss.operator, cst.Multiply):
        return False
    return any(looks_like_scale(side) and not isinstance(side, cst.BaseNumber) for side in (loss.left, loss.right))


def _speaks_of_half(facts: Facts) -> bool:
    return any(
        isinstance(part, cst.Name) and part.value in _HALF
        for statement in facts.tree.all_statements()
        for part in facts.tree.expressions(statement)
    )


def _own_trainer(facts: Facts, call: cst.Call) -> str | None:
    """The class behind `trainer.backward(loss)`, where another file of the script's own defines it."""
    if not isinstance(call.func, cst.Attribute) or not call.args:
        return None
    for one in facts.objects.objects(call.func.value):
        if isinstance(one.origin, cst.Call):
            for path in facts.names.imported_as(one.origin.func):
                source = facts.elsewhere.source_of(path)
                if source is not None and _SCALES.search(source) and _BACKWARD.search(source):
                    return shown(path)
    return None


def _of_models(facts: Facts, casts: Casts) -> list[cst.CSTNode]:
    """The casts of modules and of weights, and the methods `half` that a class has of its own."""
    found: list[cst.CSTNode] = [
        call for one, call in casts.of_modules() if not is_in_test(facts, one) and not _is_in_module(facts, one, call)
    ]
    own = [owner.methods["half"].node for owner in facts.tree.classes if "half" in owner.methods]
    return [*found, *(node for node in own if not _applies(node))]


def _is_in_module(facts: Facts, statement: Statement, call: cst.Call) -> bool:
    """True for `self.mask_value.half()` in a class of modules: a buffer, or a part of the model that casts itself."""
    owner = statement.function.owner
    if owner is None or not any(facts.text(base.value).endswith("Module") for base in owner.node.bases):
        return False
    receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
    return isinstance(receiver, cst.Attribute) and facts.text(receiver.value) == "self"


def _applies(half: cst.CSTNode) -> bool:
    """True for a layer that is cast as torch does it: it says nothing about a training."""
    return any(isinstance(part, cst.Call) and called_name(part) == "_apply" for part in walk(half))


def _updates(facts: Facts, calls: list[tuple[Statement, cst.Call]]) -> bool:
    """True where weights change: something steps, or the gradients of parameters are read."""
    if any(called_name(call) == "step" for _, call in calls):
        return True
    return any(
        isinstance(part, cst.Attribute) and part.attr.value == "grad"
        for statement in facts.tree.all_statements()
        for part in facts.tree.expressions(statement)
        if facts.names.dotted(part) is None
    )
