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
from amp_migrate.facts.tree import Function, Statement, walk
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Recognition, SkipRead
from amp_migrate.plan.steps.placement import StepPlan
from amp_migrate.rules.fp16_utils import UNKNOWN_FP16_USE
from amp_migrate.rules.half import OWN_SCALE


@dataclasses.dataclass(frozen=True)
class SkipTest:
    """A comparison of the scale with that before a step, which gets a `name` there: was it skipped, or `taken`?"""

    node: cst.BaseExpression
    step: Statement
    name: str
    taken: bool


def find_skips(facts: Facts, found: Recognition, steps: StepPlan, name: str) -> list[SkipTest]:
    """The steps that are asked about. Raises Refusal where that is not the one step whose update came right before."""
    tests = []
    for read in found.skip_reads:
        if read.optimizer is None:
            step, before = _only_step(read, steps), _free_in(read.statement.function)
        else:
            step, before = _step_before(facts, read, read.optimizer, steps), name
        tests.append(SkipTest(read.node, step, before, taken=read.optimizer is None))
    return tests


def _only_step(read: SkipRead, steps: StepPlan) -> Statement:
    own = [one.statement for one in steps.steps if one.statement.function is read.statement.function]
    if len(own) != 1:
        message = "whether the step was taken is told here, and there is not one step in this function"
        raise Refusal(OWN_SCALE, read.node, message)
    return own[0]


def _free_in(function: Function) -> str:
    """A name for the scale that the function uses for nothing else."""
    used = {part.value for part in walk(function.node) if isinstance(part, cst.Name)}
    return "scale" if "scale" not in used else "scale_before"


def _step_before(facts: Facts, read: SkipRead, optimizer: cst.BaseExpression, steps: StepPlan) -> Statement:
    own = facts.objects.objects(optimizer)
    near = [
        one.statement for one in steps.steps if one.objects & own and one.statement.function is read.statement.function
    ]
    if len(near) == 1 and near[0].runs_before(read.statement):
        step = near[0]
        updates = [one for one in steps.updates if step.inside(one.at) and not one.before]
        if len(updates) == 1 and updates[0].at.runs_before(read.statement):
            return step
    text = facts.text(read.node)
    raise Refusal(UNKNOWN_FP16_USE, read.node, f"{text} is not read right after the one step of its function")
