"""Tensors that nobody else holds, which may be cast under their own name before they are changed in place.

scores = torch.stack(parts, dim=1)              made here
best = scores.clone().detach()                  a view of what is made here
scores, state = self.net(x, state)              made there, and only returned; an earlier value of that name may be read
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.targets import shown_at
from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.plan.safety.precision import Precisions


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
    """True for the result of an operation that is no view of what it is given, unless that is fresh itself."""
    step = precisions.steps.of(Place(value))
    if not step.made or step.same or step.is_lost:
        return False
    return all(_is_new(precisions, made) for made in step.made)


def _is_new(precisions: Precisions, made: Made) -> bool:
    last = made.operations[-1]
    if last is None or not (last.view or last.in_place):
        return last is not None
    (given,) = made.operands[:1] or (None,)
    if given is None or len(made.operations) > 1:
        return False
    return not isinstance(given.node, cst.Name) and _makes(precisions, given.node)


def _returns_fresh(precisions: Precisions, returned: cst.BaseExpression, place: int) -> bool:
    """True for an element of a returned tuple that is made for it, and that the function does not keep."""
    element = shown_at(returned, (place,))
    if not isinstance(element, cst.Name):
        return element is not None and _makes(precisions, element)
    return _is_only_returned(precisions.facts, element) and is_fresh(precisions, element)


def _is_only_returned(facts: Facts, returned: cst.Name) -> bool:
    """True where nobody but the `return` reads what a local variable holds there."""
    variable = facts.names.variable_at(returned)
    if variable is None:
        return False
    held = reaching(variable, facts.tree.statement_of(returned))
    others = [load for load in variable.loads if load is not returned]
    return not any(one in held for load in others for one in reaching(variable, facts.tree.statement_of(load)))
