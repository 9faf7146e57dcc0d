"""What a step is given: a closure, which no GradScaler takes, or a value, which it hands to the optimizer.

self.optimizer.step(closure=None)   which is none
self.optimizer.step(closure)        in a `def step(self, closure=None)` that nobody gives one
optimizer.step(epoch=epoch)         for an optimizer of the script's own
"""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, called_name
from amp_migrate.facts.variables import Binding
from amp_migrate.plan.scaler.optional import is_none

_OTHERS = re.compile(r"closure|grad|scale", re.IGNORECASE)


def gives_closure(facts: Facts, step: cst.Call, function: Function) -> bool:
    """True for a step with arguments, unless they are None, or values, or parameters of its function that nobody gives
    anything.
    """
    if _gives_nothing(step) or gives_values(facts, step):
        return False
    return not (_hands_on(facts, step, function) and _is_given_nothing(facts, function))


def _gives_nothing(call: cst.Call) -> bool:
    return all(is_none(arg.value) and not arg.star for arg in call.args)


def gives_values(facts: Facts, step: cst.Call) -> bool:
    """True for a step with arguments none of which is a function, or a gradient."""
    return bool(step.args) and all(_is_value(facts, arg) for arg in step.args)


def _is_value(facts: Facts, arg: cst.Arg) -> bool:
    if arg.star or _OTHERS.search(facts.text(arg)):
        return False
    if arg.keyword is not None:
        return not _is_function(facts, arg.value)
    return _is_number(facts, arg.value) or _is_object(facts, arg.value)


def _is_function(facts: Facts, node: cst.BaseExpression) -> bool:
    is_named = isinstance(node, (cst.Name, cst.Attribute))
    return isinstance(node, cst.Lambda) or (is_named and facts.objects.function_named(node) is not None)


def _is_number(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for a number, arithmetic, and what counts the rounds of a loop."""
    if isinstance(node, (cst.BaseNumber, cst.BinaryOperation, cst.UnaryOperation)):
        return True
    variable = facts.names.variable_at(node)
    return variable is not None and all(map(_binds_number, variable.bindings))


def _binds_number(binding: Binding) -> bool:
    if binding.kind == "for":
        return isinstance(binding.value, cst.Call) and called_name(binding.value) == "range"
    return isinstance(binding.value, (cst.BaseNumber, cst.BinaryOperation))


def _is_object(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for an instance of a class of the unit that is not called."""
    objects = facts.objects.objects(node)
    plain = {
        facts.objects.object_of("instance", facts.objects.root_class(owner))
        for owner in facts.tree.classes
        if "__call__" not in owner.methods and not owner.node.bases
    }
    return bool(objects) and objects <= plain


def _hands_on(facts: Facts, step: cst.Call, function: Function) -> bool:
    """True for `step(closure)` and `step(*args, **kwargs)` of the function's own parameters."""
    variables = [facts.names.variable_at(arg.value) for arg in step.args if isinstance(arg.value, cst.Name)]
    own = [one for one in variables if one is not None and one.scope.owner is function]
    return len(own) == len(step.args) and all([one.kind for one in each.bindings] == ["param"] for each in own)


def _is_given_nothing(facts: Facts, function: Function) -> bool:
    callers = facts.objects.possible_callers(function)
    return bool(callers) and all(_gives_nothing(call) for call, _ in callers) and not facts.is_used_outside(function)
