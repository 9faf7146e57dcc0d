"""Steps that may come without gradients: Apex just stepped, GradScaler.step asserts that there are some (rule A7).

    if is_number(loss.item()):
        scaler.scale(loss).backward()
    if i % every == 0:
        if any(p.grad is not None for group in optimizer.param_groups for p in group["params"]):
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()

The optimizers of torch pass over parameters without a gradient: where none has one, nothing is lost if the step is left
out together with its update. Where old gradients may be there in their place, which an earlier step has taken and
nothing has cleared, the scaler would unscale them once more.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object
from amp_migrate.facts.tree import Statement
from amp_migrate.plan.steps.events import Step
from amp_migrate.plan.steps.step_graph import StepGraph
from amp_migrate.plan.steps.unscales import Unscale


def can_be_left_out(
    graph: StepGraph,
    step: Step,
    others: Sequence[Step],
    group: Sequence[Step],
    unscales: Sequence[Unscale],
    update: Statement,
) -> bool:
    """True for the only step of its group, which the update follows at once: an `unscale_` before it would need the
    update. It comes without the step where `others` of the group, which have gradients, stand beside it.
    """
    is_alone = len(group) == 1 and not unscales and update is step.statement
    if not is_alone and not any(one.statement.block is step.statement.block for one in others):
        return False
    if not _is_line_of_its_own(step) or _meets_old_gradients(graph, step):
        return False
    return bool(step.objects) and all(_is_of_torch(graph.facts, one) for one in step.objects)


def _is_line_of_its_own(step: Step) -> bool:
    """False for `optimizer.step(); scheduler.step()`: what shares the line runs without gradients, too."""
    node, line = step.statement.node, step.statement.line
    is_alone = isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) and len(line.body) == 1
    return is_alone and isinstance(node, cst.Expr) and node.value is step.call


def _meets_old_gradients(graph: StepGraph, step: Step) -> bool:
    """True where its optimizer has stepped, and nothing has cleared the gradients before it steps again, or before a
    backward adds to them.
    """
    members = step.objects
    is_step, backward = graph.is_step(members), graph.is_backward(members)
    stepped = graph.points(one.statement for one in graph.steps_of(members))
    return graph.path_exists(stepped, lambda point: is_step(point) or backward(point), graph.clears(members))


def _is_of_torch(facts: Facts, optimizer: Object) -> bool:
    made = optimizer.origin
    name = facts.names.dotted(made.func) if isinstance(made, cst.Call) else None
    return name is not None and name.startswith("torch.optim.")
