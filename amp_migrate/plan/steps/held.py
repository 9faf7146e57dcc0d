"""Optimizers that an object holds, where that object is at hand: a class of schedules makes one and steps it.

clip_grad_norm_(model.parameters(), 1.0)         =>      scaler.unscale_(schedule.optimizer)
schedule.step_and_update()                               clip_grad_norm_(model.parameters(), 1.0)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import writes
from amp_migrate.facts.tree import Statement, names_in
from amp_migrate.plan.steps.events import Step


def holder(facts: Facts, steps: Iterable[Step], at: Statement) -> tuple[cst.BaseExpression, str] | None:
    """`schedule` and `.optimizer`, of a call `schedule.step_and_update()` in the function of `at` that makes one of the
    steps; None where there is none, where several objects make it there, or where the name may mean another object at
    the statement.
    """
    for step in steps:
        path = _path_from_self(facts, step)
        receivers = list(_receivers(facts, step, at)) if path else []
        if all(one.deep_equals(receivers[0][0]) for one, _ in receivers):
            for receiver, statement in receivers:
                if not _is_rebound(receiver, at, statement):
                    return receiver, path
    return None


def _receivers(facts: Facts, step: Step, at: Statement) -> Iterator[tuple[cst.BaseExpression, Statement]]:
    for call, statement in facts.objects.callers(step.statement.function):
        if isinstance(call.func, cst.Attribute) and statement.function is at.function:
            yield call.func.value, statement


def _path_from_self(facts: Facts, step: Step) -> str:
    """`.optimizer` of `self.optimizer.step()`; nothing where only the class itself can say the name."""
    function = step.statement.function
    if not isinstance(step.optimizer, cst.Attribute) or not function.is_method:
        return ""
    owner, _, path = facts.text(step.optimizer).partition(".")
    is_own = owner == function.parameters[0].name.value and all(part.isidentifier() for part in path.split("."))
    return f".{path}" if is_own and not path.startswith("__") else ""


def _is_rebound(receiver: cst.BaseExpression, first: Statement, last: Statement) -> bool:
    """True where something between two statements may give the name of an object to another one."""
    names = names_in(receiver)
    between = first.function.descendants()
    written = (path for one in between if first.order <= one.order < last.order for path in writes(one))
    return any(names.intersection(path) for path in written)
