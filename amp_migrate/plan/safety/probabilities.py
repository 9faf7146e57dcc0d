"""Logarithms of probabilities: in half a sigmoid is exactly 1 from logit 8.5 on, and its logarithm minus infinity.

    p = torch.sigmoid(z)                                          =>    p = torch.sigmoid(z.float())
    loss = -(t * torch.log(p) + (1 - t) * torch.log(1 - p))

As for torch's own binary cross entropy (rule E4), the sigmoid itself has to run in float32: `.float()` on its result
comes too late ([run]). softmax runs in float32 under autocast anyway.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts.tree import Class, Function, called_name, walk
from amp_migrate.plan.regions.sigmoids import Sigmoids
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision, tensor_operand

_LOGARITHMS = frozenset("log log2 log10 log1p".split())
_DEEPEST = 16  # from a loss through a class of its own to the last layer of a head


def keep_probabilities(context: Context) -> None:
    """Float32 for the arguments of the sigmoids whose results a logarithm takes."""
    for call, _ in context.reach.calls():
        if called_name(call) in _LOGARITHMS:
            operand = tensor_operand(context.facts, call)
            for argument in _sigmoids(context, operand, _DEEPEST, set()) if operand is not None else ():
                if context.precisions.of(argument) not in (Precision.SINGLE, Precision.OTHER):  # no double becomes less
                    context.safety.keep_float32(argument)


def _sigmoids(
    context: Context, node: cst.BaseExpression, depth: int, seen: set[cst.BaseExpression]
) -> Iterator[cst.BaseExpression]:
    """What the sigmoids take that a value is computed from, by arithmetic and through names, calls and parameters."""
    if depth == 0 or node in seen:
        return
    seen.add(node)
    for part in walk(node):
        if isinstance(part, cst.Call):
            sigmoids = Sigmoids(context.facts)
            argument = sigmoids.origin(part)
            if argument is not None and not sigmoids.is_softmax(part):
                yield argument
            for value in _returned(context, part):
                yield from _sigmoids(context, value, depth - 1, seen)
        elif isinstance(part, cst.Name) and not context.facts.tree.is_label(part):
            for value in _values(context, part):
                yield from _sigmoids(context, value, depth - 1, seen)


def _values(context: Context, name: cst.Name) -> list[cst.BaseExpression]:
    """What a variable was given: before this statement if that is certain, else by any assignment or call."""
    value = context.precisions.value_before(name)
    if value is not None:
        return [value]
    variable = context.facts.names.variable_at(name)
    if variable is None or not isinstance(variable.scope.owner, Function):
        return []
    return [*context.facts.objects.values_of(name), *context.reach.given_to_forward(variable)]


def _returned(context: Context, call: cst.Call) -> list[cst.BaseExpression]:
    """What a function of the unit returns, or the forward of a module."""
    function = context.facts.objects.called_function(call)
    functions = [function] if function is not None and function.name != "__init__" else []
    if function is None and isinstance(call.func, (cst.Name, cst.Attribute)):
        owners = [one.origin for one in context.facts.objects.objects(call.func)]
        functions = [one.methods["forward"] for one in owners if isinstance(one, Class) and "forward" in one.methods]
    return [value for one in functions for value in context.facts.objects.returned_by(one)]
