"""Closures that a step only hands on: `self.optimizer.step(closure)` in a `def step(self, closure=None)`."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function


def gives_closure(facts: Facts, step: cst.Call, function: Function) -> bool:
    """True for a step with arguments, unless they are parameters of its function that nobody gives anything."""
    return bool(step.args) and not (_hands_on(facts, step, function) and _is_given_nothing(facts, function))


def _hands_on(facts: Facts, step: cst.Call, function: Function) -> bool:
    """True for `step(closure)` and `step(*args, **kwargs)` of the function's own parameters."""
    variables = [facts.names.variable_at(arg.value) for arg in step.args if isinstance(arg.value, cst.Name)]
    own = [one for one in variables if one is not None and one.scope.owner is function]
    return len(own) == len(step.args) and all([one.kind for one in each.bindings] == ["param"] for each in own)


def _is_given_nothing(facts: Facts, function: Function) -> bool:
    callers = facts.objects.possible_callers(function)
    return bool(callers) and not any(call.args for call, _ in callers) and not facts.is_used_outside(function)
