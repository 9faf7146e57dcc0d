"""One loss scale for the setups that share a scaler.

    if args.loss_scale == 0:
        model, optimizer = amp.initialize(model, optimizer, loss_scale="dynamic")
    else:
        model, optimizer = amp.initialize(model, optimizer, loss_scale=args.loss_scale)

is one setup whose scale is dynamic where the test says so.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import negated
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import LossScale, Setup
from amp_migrate.rules.scaler import TWO_LOSS_SCALES


def one_loss_scale(facts: Facts, setups: list[Setup]) -> LossScale:
    """What all setups ask for. Raises Refusal where they differ in another way than the one above."""
    setups = [setup for setup in setups if not setup.always_off] or setups
    first = setups[0].loss_scale
    for setup in setups[1:]:
        if _key(facts, setup.loss_scale) != _key(facts, first):
            either = _dynamic_or_given(facts, setups)
            if either is not None:
                return either
            message = "this amp.initialize asks for another loss scale than the one before"
            raise Refusal(TWO_LOSS_SCALES, setup.call, message)
    return first


def _key(facts: Facts, scale: LossScale) -> tuple[object, ...]:
    nodes = (scale.runtime, scale.initial, scale.minimum, scale.maximum)
    return (scale.static, *(facts.text(node) if node is not None else None for node in nodes))


def _dynamic_or_given(facts: Facts, setups: list[Setup]) -> LossScale | None:
    """Two setups in the arms of one `if`, one dynamic and one with a scale known at run time."""
    holder = setups[0].statement.block.owner
    if len(setups) != 2 or holder is None or not isinstance(holder.node, cst.If):
        return None
    arms = {setup.statement.arm_of(holder.node): setup.loss_scale for setup in setups}
    if len(arms) != 2 or any(setup.statement.block.owner is not holder for setup in setups):
        return None
    for arm, scale in arms.items():
        other = next(one for one in arms.values() if one is not scale)
        if _key(facts, scale) == _key(facts, LossScale()) and other.runtime is not None:
            test = holder.node.test if arm == "body" else negated(holder.node.test)
            return dataclasses.replace(other, dynamic_when=test, growth_interval=scale.growth_interval)
    return None
