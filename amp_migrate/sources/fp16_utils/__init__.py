"""The front end for `apex.fp16_utils`, and for the same classes under other roofs.

    model = network_to_half(model)
    optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
    ...
    optimizer.backward(loss)
    optimizer.clip_master_grads(1.0)
    optimizer.step()

It works in two steps. What is there for half weights and for the program without them goes first (`arms`, `casts`):
what is left is the plain program (rule G3), in which wrapped optimizers say when mixed precision is on, and their
backwards which losses are scaled. The training is then read from that program (`reader`).
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.elsewhere import shown
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Lowering, Recognition
from amp_migrate.rules.fp16_utils import UNKNOWN_WRAPPER
from amp_migrate.rules.source_forms import FP16_UTILS
from amp_migrate.sources.fp16_utils.arms import Arms
from amp_migrate.sources.fp16_utils.half_alone import trains_in_half
from amp_migrate.sources.fp16_utils.names import (
    HAND_LOOPS,
    METHODS,
    MODEL_CASTS,
    MODULES,
    OPTIMIZERS,
    form_name,
    is_of_apex,
    may_hold_form,
    program_statements,
    unknown_copy,
)
from amp_migrate.sources.fp16_utils.reader import Reader


def recognise(facts: Facts) -> tuple[Recognition, list[Refusal]]:
    """Everything of the form in the unit, or what makes a plain program of it; and why it cannot all be migrated."""
    found = Recognition(FP16_UTILS, modules=MODULES)
    found.sites.extend(_sites(facts))
    if not any(_is_of_form(facts, site) for site in found.sites) or trains_in_half(facts, found.sites):
        found.sites.clear()
        return found, []
    copies = [
        Refusal(UNKNOWN_WRAPPER, node, f"{shown(path)} is in no file that is known", (path,))
        for node, path in _unknown(facts)
    ]
    lowering = Lowering()
    arms = Arms(facts, lowering)
    arms.lower()
    found.findings.extend(arms.findings)
    if copies or arms.refusals or not lowering.is_empty:
        found.lowering = lowering
        return found, [*copies, *arms.refusals]
    reader = Reader(facts, found)
    reader.read()
    return found, reader.refusals


def _sites(facts: Facts) -> Iterator[cst.CSTNode]:
    """What is of the form by its name: calls of its classes and functions, and methods that only the wrapper has."""
    for statement in program_statements(facts) if may_hold_form(facts) else ():
        if isinstance(statement.node, (cst.Import, cst.ImportFrom)):
            continue
        for part in facts.tree.expressions(statement):
            if isinstance(part, cst.Call):
                name = form_name(facts, part.func)
                is_method = isinstance(part.func, cst.Attribute) and part.func.attr.value in METHODS
                if name in OPTIMIZERS | MODEL_CASTS | HAND_LOOPS or is_method or unknown_copy(facts, part.func):
                    yield part


def _is_of_form(facts: Facts, site: cst.CSTNode) -> bool:
    """False for a loop over masters that the script defines itself: alone, it is training in half by hand."""
    assert isinstance(site, cst.Call)
    return form_name(facts, site.func) not in HAND_LOOPS or is_of_apex(facts, site.func)


def _unknown(facts: Facts) -> Iterator[tuple[cst.CSTNode, str]]:
    for call, _ in facts.tree.every(cst.Call):
        path = unknown_copy(facts, call.func)
        if path is not None:
            yield call, path


__all__ = ["recognise"]
