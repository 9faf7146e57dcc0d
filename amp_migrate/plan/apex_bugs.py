"""What Apex computed otherwise than the script says, and native AMP computes as it says: findings (AMP163)."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.clips import is_clip
from amp_migrate.facts.paths import Decide, is_dead
from amp_migrate.facts.tree import called_name, walk
from amp_migrate.findings import Finding
from amp_migrate.models.traits import named
from amp_migrate.plan.model import Recognition
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.steps.events import Events
from amp_migrate.plan.steps.placement import StepPlan
from amp_migrate.plan.steps.unscales import tests_that_decide
from amp_migrate.rules.fp16_utils import ARMS_DIFFERED
from amp_migrate.rules.source_forms import APEX_AMP

_HALF_WEIGHTS = ("O2", "O3")


def now_as_written(
    facts: Facts, found: Recognition, roles: Roles, events: Events, steps: StepPlan, decide: Decide
) -> list[Finding]:
    """The findings for one unit, in a program where `decide` answers which arms run in mixed precision."""
    return [
        *_clips_of_half_weights(facts, found, roles, decide),
        *_sums_of_the_handle(facts, found, steps),
        *_steps_that_the_script_skips(facts, found, events),
    ]


def _steps_that_the_script_skips(facts: Facts, found: Recognition, events: Events) -> Iterator[Finding]:
    """`if math.isfinite(norm): optimizer.step()`: after an overflow Apex had the next call of `step` do nothing, which
    was the call for the next batch, then.
    """
    if found.form != APEX_AMP:
        return
    said = set()
    for use in (use for uses in events.uses.values() for use in uses if use.call is not None):
        for test in tests_that_decide(events, use):
            if test not in said and any(_asks_for_a_number(part) for part in walk(test)):
                said.add(test)
                message = f"where {facts.text(test)} skipped a step after an overflow, Apex skipped the next one, too"
                yield facts.finding(test, ARMS_DIFFERED, message, "apex")


def _asks_for_a_number(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and called_name(node) in named("overflow test")


def _clips_of_half_weights(facts: Facts, found: Recognition, roles: Roles, decide: Decide) -> Iterator[Finding]:
    """`clip_grad_norm_(model.parameters(), 1.0)` after the `with`: under O2 the optimizer has parameters of its own,
    which had their gradients by then.
    """
    trains = [setup for setup in found.setups if setup.optimizers]
    if found.form != APEX_AMP or not trains or not all(setup.level in _HALF_WEIGHTS for setup in trains):
        return
    scaled = [backward.statement for backward in found.backwards]
    for statement in facts.tree.all_statements():
        if any(statement.inside(one) for one in scaled) or is_dead(statement, decide):
            continue
        for call in facts.tree.calls(statement):
            if is_clip(facts, call) and call.args and _are_of_model(roles, call.args[0].value):
                text, level = facts.text(call), trains[0].level
                message = f"{text} clipped half gradients that the optimizer did not use under {level}; now it clips"
                yield facts.finding(call, ARMS_DIFFERED, message, "apex")


def _are_of_model(roles: Roles, node: cst.BaseExpression) -> bool:
    """True for `model.parameters()`."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    return node.func.attr.value == "parameters" and roles.is_model(node.func.value)


def _sums_of_the_handle(facts: Facts, found: Recognition, steps: StepPlan) -> Iterator[Finding]:
    """The handle of `amp.init` divided all gradients that were there by the scale when one of its `with` ended.

    An optimizer that it wraps (`optimizer.scale_loss(loss)`) kept those of earlier losses apart.
    """
    if any(called_name(setup.call) != "init" for setup in found.setups):
        return
    for backward in steps.repeated:
        if len(backward.call.args) > 1:
            text = facts.text(backward.call)
            message = f"{text} divided the gradients of earlier backwards by the loss scale again; now they add up"
            yield facts.finding(backward.call, ARMS_DIFFERED, message, "apex")
