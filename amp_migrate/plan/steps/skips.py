"""Whether the last step was skipped: `optimizer.overflow` of a wrapper.

    scale = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= scale:      it was `if not optimizer.overflow:`
        scheduler.step()

A GradScaler does not tell, but its scale goes down after an overflow, and then only. Under a static scale the wrapper
had never an overflow to tell of, and the scale stays as it is.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Recognition, SkipRead
from amp_migrate.plan.steps.placement import StepPlan


@dataclasses.dataclass(frozen=True)
class SkipTest:
    """A comparison of the scale with that before a step, which gets a `name` there."""

    node: cst.BaseExpression
    step: Statement
    name: str


def find_skips(facts: Facts, found: Recognition, steps: StepPlan, name: str) -> list[SkipTest]:
    """The steps that are asked about. Raises Refusal where that is not the one step whose update came right before."""
    return [SkipTest(read.node, _step_before(facts, read, steps), name) for read in found.skip_reads]


def _step_before(facts: Facts, read: SkipRead, steps: StepPlan) -> Statement:
    own = facts.objects.objects(read.optimizer)
    near = [
        one.statement for one in steps.steps if one.objects & own and one.statement.function is read.statement.function
    ]
    if len(near) == 1 and _follows(read.statement, near[0]):
        step = near[0]
        updates = [one for one in steps.updates if step.inside(one.at) and not one.before]
        if len(updates) == 1 and _follows(read.statement, updates[0].at):
            return step
    text = facts.text(read.node)
    raise Refusal("AMP930", read.node, f"{text} is not read right after the one step of its function")


def _follows(statement: Statement, other: Statement) -> bool:
    """True for a statement that comes after the other one in its block, or inside of one that does."""
    return any(outer.block is other.block and outer.index > other.index for outer in statement.path())
