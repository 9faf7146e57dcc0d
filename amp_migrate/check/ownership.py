"""Each optimizer belongs to one scaler (rule A5): the one that scaled its loss unscales its gradients and steps it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.check.scalers import Event, Scalers
from amp_migrate.check.violation import Violation, violation
from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Statement

_Uses = list[tuple[Statement, Event]]


def check_owners(facts: Facts, scalers: Scalers) -> Iterator[Violation]:
    """Optimizers that one scaler unscales or steps, and another one as well, in one function; and those that a scaler
    unscales beside others, while none steps them.
    """
    if any(scalers.of_kind("unseen")):
        return
    for optimizer in scalers.optimizers:
        uses = [one for one in scalers.of_kind("unscale", "step") if one[1].optimizer == optimizer and not one[1].each]
        foreign = _foreign(uses)
        for event, other in foreign:
            message = f"{optimizer} is given to {_name(event)}, and to {_name(other)} on line {facts.line(other.node)}"
            yield violation(facts, "foreign scaler", event.node, message)
        is_stepped = any(event.kind == "step" for _, event in uses)
        if not is_stepped and not foreign and len(scalers.creations) > 1 and any(scalers.of_kind("step")):
            for _, event in uses:
                message = f"{optimizer} is unscaled by {_name(event)}, and no scaler steps it"
                yield violation(facts, "foreign scaler", event.node, message, "unstepped")


def _foreign(uses: _Uses) -> list[tuple[Event, Event]]:
    """The uses by another scaler than the first one of the same function that may run beside them."""
    found = []
    for number, (statement, event) in enumerate(uses):
        for earlier, other in uses[:number]:
            is_other = bool(event.scaler and other.scaler) and not event.scaler & other.scaler
            if is_other and earlier.function is statement.function and not earlier.excludes(statement):
                found.append((event, other))
                break
    return found


def _name(event: Event) -> str:
    assert isinstance(event.node.func, cst.Attribute)
    return source_key(event.node.func.value)
