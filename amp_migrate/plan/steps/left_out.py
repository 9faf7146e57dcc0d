"""Steps that may come without gradients: Apex just stepped, GradScaler.step asserts that there are some (rule A7).

    if is_number(loss.item()):
        scaler.scale(loss).backward()
    if i % every == 0:
        if any(p.grad is not None for group in optimizer.param_groups for p in group["params"]):
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()

The optimizers of torch pass over parameters without a gradient: where none has one, nothing is lost if the step is left
out together with its update.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object
from amp_migrate.facts.tree import Statement
from amp_migrate.plan.steps.events import Step
from amp_migrate.plan.steps.unscales import Unscale


def can_be_left_out(facts: Facts, group: Sequence[Step], unscales: Sequence[Unscale], update: Statement) -> bool:
    """True for the only step of its group, which the update follows at once: an `unscale_` before it, or another step,
    would need the update.
    """
    if len(group) != 1 or unscales or update is not group[0].statement:
        return False
    step, node = group[0], group[0].statement.node
    is_statement = isinstance(node, cst.Expr) and node.value is step.call
    return is_statement and bool(step.objects) and all(_is_of_torch(facts, one) for one in step.objects)


def _is_of_torch(facts: Facts, optimizer: Object) -> bool:
    made = optimizer.origin
    name = facts.names.dotted(made.func) if isinstance(made, cst.Call) else None
    return name is not None and name.startswith("torch.optim.")
