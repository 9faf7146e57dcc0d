"""Gradients that are taken for half values outside of the regions: they are half, and so is what is made of them.

    def path_lengths(styles, images):
        gradient = autograd.grad((images * noise).sum(), styles, create_graph=True)[0]      => ...[0].float()
        return (gradient**2).sum(dim=2).sqrt()

Apex computed powers and sums in float32, wherever they stand. Squares of such gradients are zero in half, or infinite,
and the gradient of the root of zero is NaN.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import Statement, argument_value, walk
from amp_migrate.facts.values import literal_value
from amp_migrate.facts.variables import Binding, Variable
from amp_migrate.interp.place import Place
from amp_migrate.interp.values import Values
from amp_migrate.plan.regions.barriers import is_autograd_grad
from amp_migrate.plan.regions.region import Region


def half_gradients(facts: Facts, values: Values, regions: list[Region]) -> Iterator[cst.BaseExpression]:
    """Each gradient that `autograd.grad(outputs, inputs)` takes outside of the regions for what a model makes in one:
    an element of the call, or the name of one where it is read.
    """
    for call, statement in facts.tree.every(cst.Call):
        if not is_autograd_grad(facts, call) or any(region.covers(statement) for region in regions):
            continue
        for index, tensor in enumerate(_inputs(call)):
            if isinstance(tensor, cst.Name) and values.may_leave_autocast(Place(tensor)):
                yield from _taken(facts, call, statement, index)


def _inputs(call: cst.Call) -> list[cst.BaseExpression]:
    inputs = argument_value(call, "inputs", 1)
    if isinstance(inputs, (cst.List, cst.Tuple)):
        return [element.value for element in inputs.elements]
    return [inputs] if inputs is not None else []


def _taken(facts: Facts, call: cst.Call, statement: Statement, index: int) -> Iterator[cst.BaseExpression]:
    """One of the gradients: `grad(...)[0]`, `slope` of `slope, = grad(...)`, `slopes[0]` of `slopes = grad(...)`."""
    element = facts.tree.parents.get(call)
    if isinstance(element, cst.Subscript) and element.value is call and _is_at(element, index):
        yield element
    for target in walk(statement.node) if isinstance(element, cst.Assign) else ():
        variable = facts.names.variable_at(target)
        if variable is None:
            continue
        for binding in variable.bindings:
            if binding.node is target and binding.value is call and binding.selector in ((), (index,)):
                loads = list(_loads(facts, variable, binding))
                yield from loads if binding.selector else _elements(facts, loads, index)


def _loads(facts: Facts, variable: Variable, binding: Binding) -> Iterator[cst.BaseExpression]:
    """Where a variable is read that has its value from one place."""
    for load in variable.loads:
        statement = facts.tree.statement_of(load)
        if not isinstance(statement.node, cst.Del) and reaching(variable, statement) == [binding]:
            yield load


def _elements(facts: Facts, loads: list[cst.BaseExpression], index: int) -> Iterator[cst.BaseExpression]:
    for load in loads:
        element = facts.tree.parents.get(load)
        if isinstance(element, cst.Subscript) and element.value is load and _is_at(element, index):
            yield element


def _is_at(element: cst.Subscript, place: int) -> bool:
    index = element.slice[0].slice
    return len(element.slice) == 1 and isinstance(index, cst.Index) and literal_value(index.value) == place
