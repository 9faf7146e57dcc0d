"""Sums of half outputs after a region: outside of autocast they are half, and infinite beyond 65504.

    def overlap(found, wanted):
        return 2 * (found * wanted).sum() / (found * found).sum()       =>      (found * found).float().sum()

    with autocast(...):
        scores = model(images)
    print(overlap(torch.sigmoid(scores), wanted))

A product with a float32 tensor is float32; squares of one mask of 256 x 256 pixels are not. What trained in half before
has summed half as well; a plain loop never did, nor did Apex's O1, which patched sums everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.answers import Answers
from amp_migrate.facts.tree import Function, called_name
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.leaving import half_names, loads_after
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.safety.operands import tensor_operand
from amp_migrate.plan.safety.precision import Precision, Precisions

_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.Power)
_SAME_DTYPE = frozenset(
    "sigmoid softmax log_softmax relu tanh abs exp log pow square sqrt clamp detach clone contiguous cpu cuda view "
    "reshape flatten squeeze unsqueeze permute transpose t".split()
)
_VIEWS = frozenset("data T".split())


def halves_summed_after(
    facts: Facts, forwards: Forwards, regions: list[Region], precisions: Precisions, inside: Iterable[Function]
) -> list[cst.BaseExpression]:
    """What is summed and needs `.float()`: in the functions with a region, and in those that they call. `inside` are
    the functions that run under autocast.
    """
    outputs = [
        load
        for region in regions
        for name in dict.fromkeys(half_names(facts, forwards, region))
        for load in loads_after(facts, name, region)
        if precisions.of(load) is Precision.HALF
    ]
    halves = _Halves(facts, precisions, frozenset(outputs))
    functions = {region.function for region in regions}
    functions |= {called for function in functions for called in facts.calls.reachable(function)} - set(inside)
    return [operand for operand in _summed(facts, functions, regions) if halves.are_in(operand)]


def _summed(facts: Facts, functions: set[Function], regions: list[Region]) -> Iterator[cst.BaseExpression]:
    """X of `X.sum()` and `torch.sum(X)`."""
    for call, statement in facts.tree.every(cst.Call):
        if called_name(call) == "sum" and isinstance(call.func, cst.Attribute) and statement.function in functions:
            operand = tensor_operand(facts, call)
            if operand is not None and not any(region.covers(statement) for region in regions):
                yield operand


class _Halves:
    """Which expressions are half where autocast is off: what is made of some outputs alone, number by number."""

    def __init__(self, facts: Facts, precisions: Precisions, outputs: frozenset[cst.BaseExpression]) -> None:
        self.facts = facts
        self.precisions = precisions
        self.outputs = outputs
        self._answers: Answers[cst.BaseExpression, bool] = Answers(False)

    def are_in(self, node: cst.BaseExpression) -> bool:
        return self._answers.to(node, lambda: self._are_in(node))

    def _are_in(self, node: cst.BaseExpression) -> bool:
        if node in self.outputs:
            return True
        if isinstance(node, cst.Name):
            value = self.precisions.value_before(node)
            given = [value] if value is not None else list(self._given(node))
            return any(map(self.are_in, given))
        if isinstance(node, cst.Attribute):
            return node.attr.value in _VIEWS and self.are_in(node.value)
        if isinstance(node, cst.Subscript):
            return self.are_in(node.value)
        if isinstance(node, cst.UnaryOperation):
            return isinstance(node.operator, cst.Minus) and self.are_in(node.expression)
        if isinstance(node, cst.BinaryOperation):
            sides = [one for one in (node.left, node.right) if self.precisions.of(one) is not Precision.NUMBER]
            is_elementwise = isinstance(node.operator, _ARITHMETIC) and bool(sides)
            return is_elementwise and all(map(self.are_in, sides))
        if isinstance(node, cst.Call) and called_name(node) in _SAME_DTYPE and isinstance(node.func, cst.Attribute):
            operand = tensor_operand(self.facts, node)
            return operand is not None and self.are_in(operand)
        return False

    def _given(self, name: cst.Name) -> Iterator[cst.BaseExpression]:
        """What the calls of its function give for a parameter."""
        variable = self.facts.names.variable_at(name)
        owner = variable.scope.owner if variable is not None else None
        for binding in variable.bindings if variable is not None and isinstance(owner, Function) else ():
            if binding.kind == "param" and isinstance(binding.node, cst.Param) and isinstance(owner, Function):
                for call, _ in self.facts.objects.callers(owner):
                    arg = self.facts.objects.argument(call, owner, binding.node)
                    if arg is not None:
                        yield arg.value
