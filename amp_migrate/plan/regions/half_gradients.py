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
from amp_migrate.facts.dataflow import backward_slice, own_reads
from amp_migrate.facts.tree import Function, Statement, argument_value
from amp_migrate.facts.values import literal_value
from amp_migrate.plan.regions.barriers import is_autograd_grad
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.region import Region


def half_gradients(facts: Facts, forwards: Forwards, regions: list[Region]) -> Iterator[cst.BaseExpression]:
    """Each `autograd.grad(outputs, inputs)[0]` outside of the regions whose inputs a model makes inside of one."""
    for call, statement in facts.tree.every(cst.Call):
        element = facts.tree.parents.get(call)
        if not is_autograd_grad(facts, call) or any(region.covers(statement) for region in regions):
            continue
        if isinstance(element, cst.Subscript) and element.value is call and _is_first(element):
            inputs = argument_value(call, "inputs", 1)
            if isinstance(inputs, cst.Name) and _made_by_models(facts, forwards, regions, inputs):
                yield element


def _is_first(element: cst.Subscript) -> bool:
    index = element.slice[0].slice
    return len(element.slice) == 1 and isinstance(index, cst.Index) and literal_value(index.value) == 0


def _made_by_models(facts: Facts, forwards: Forwards, regions: list[Region], name: cst.Name) -> bool:
    """True for a name, or what the calls give for a parameter, that a model makes in a region."""
    variable = facts.names.variable_at(name)
    for binding in variable.bindings if variable is not None else ():
        if binding.kind == "assign" and binding.statement is not None:
            if any(region.covers(binding.statement) for region in regions) and _runs_model(forwards, binding.statement):
                return True
        owner = variable.scope.owner if variable is not None else None
        if binding.kind == "param" and isinstance(binding.node, cst.Param) and isinstance(owner, Function):
            given = [facts.objects.argument(call, owner, binding.node) for call, _ in facts.objects.callers(owner)]
            values = [arg.value for arg in given if arg is not None]
            own = [one for one in values if isinstance(one, cst.Name) and facts.tree.function_of(one) is not owner]
            if any(_made_by_models(facts, forwards, regions, one) for one in own):
                return True
    return False


def _runs_model(forwards: Forwards, statement: Statement) -> bool:
    """True where a model runs in a statement, or makes what it reads."""
    made = backward_slice(statement, own_reads(statement), lambda path: False).statements
    return any(forwards.runs_model(one) for one in (statement, *made))
