"""Parameters without a gradient: Apex's DistributedDataParallel left them out, torch's raises unless told to look.

if args.fp16:
    model = ApexDDP(model)                                    find_unused_parameters=True, as the other arm says
else:
    model = DDP(model, find_unused_parameters=True)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.companions.spelling import torch_path
from amp_migrate.companions.table import COMPANIONS, DDP
from amp_migrate.facts import Facts
from amp_migrate.facts.tree import argument_value
from amp_migrate.plan.scaler.visible import Visible


def looks_for_unused(facts: Facts, call: cst.Call) -> str | None:
    """What the other arms of the `if` statements around Apex's wrapping say of unused parameters; None for nothing."""
    at = facts.tree.statement_of(call)
    visible = Visible(facts)
    values = (argument_value(other, "find_unused_parameters") for other in _in_other_arms(facts, call))
    texts = (visible.express(value, at.function, at) for value in values if value is not None)
    return next((text for text in texts if text is not None), None)


def _in_other_arms(facts: Facts, call: cst.Call) -> Iterator[cst.Call]:
    """The calls that wrap the same model where this one does not."""
    at = facts.tree.statement_of(call)
    model = facts.text(call.args[0].value)
    for outer in at.path()[:-1]:
        arm = at.arm_of(outer.node)
        others = [block for block in outer.blocks if isinstance(outer.node, cst.If) and block.arm != arm]
        for inner in (one for block in others for statement in block.statements for one in statement.descendants()):
            for part in facts.tree.expressions(inner):
                is_torchs = isinstance(part, cst.Call) and torch_path(facts, part.func) == COMPANIONS[DDP].target
                if is_torchs and isinstance(part, cst.Call) and part.args and facts.text(part.args[0].value) == model:
                    yield part
