"""Tensors that nobody else holds, which may be cast under their own name before they are changed in place.

scores = torch.stack(parts, dim=1)              made here
best = scores.clone().detach()                  a view of what is made here
scores, state = self.net(x, state)              made there, and only returned; an earlier value of that name may be read
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import called_name
from amp_migrate.models import names
from amp_migrate.models.queries import in_float32, in_half
from amp_migrate.plan.safety.precision import Precision, Precisions

_MAKING = frozenset("clone relu sigmoid tanh mean div mul add sub zeros_like ones_like cat stack masked_fill".split())
_VIEWS = frozenset("detach view reshape squeeze unsqueeze transpose permute contiguous flatten".split())


def is_fresh(precisions: Precisions, name: cst.Name) -> bool:
    """True where a variable holds a tensor that the operation before has made: no view of another, no argument."""
    value = precisions.value_before(name)
    if value is not None:
        return _makes(precisions, value)
    unpacked = precisions.unpacked_before(name)
    if unpacked is None:
        return False
    functions, place = unpacked
    returned = [value for function in functions for value in precisions.facts.objects.returned_by(function)]
    return bool(returned) and all(_returns_fresh(precisions, value, place) for value in returned)


def _makes(precisions: Precisions, value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.BinaryOperation):
        return True
    if not isinstance(value, cst.Call):
        return False
    if called_name(value) in _VIEWS and isinstance(value.func, cst.Attribute):
        return _makes(precisions, value.func.value)
    made = _MAKING | names(in_half) | names(in_float32)
    return called_name(value) in made or precisions.of_module(value) is Precision.HALF


def _returns_fresh(precisions: Precisions, returned: cst.BaseExpression, place: int) -> bool:
    """True for an element of a returned tuple that is made for it, and that the function does not keep."""
    if not isinstance(returned, cst.Tuple) or place >= len(returned.elements):
        return False
    element = returned.elements[place].value
    if not isinstance(element, cst.Name):
        return _makes(precisions, element)
    return _is_only_returned(precisions.facts, element) and is_fresh(precisions, element)


def _is_only_returned(facts: Facts, returned: cst.Name) -> bool:
    """True where nobody but the `return` reads what a local variable holds there."""
    variable = facts.names.variable_at(returned)
    if variable is None:
        return False
    held = reaching(variable, facts.tree.statement_of(returned))
    others = [load for load in variable.loads if load is not returned]
    return not any(one in held for load in others for one in reaching(variable, facts.tree.statement_of(load)))
