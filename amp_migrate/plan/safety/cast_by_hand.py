"""Products of what the script has cast to float32 by hand, for a model of half weights.

    def forward(self, x, y):
        return distance(x.float(), y.float())          =>    with autocast(enabled=False):
                                                                 return torch.mm(x, y.t())

Under O2 nothing was cast by the operation: what was float32 had products in float32. Autocast casts operands again.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.answers import Answers
from amp_migrate.facts.tree import Function, called_name
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.operands import is_of_module
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import factors, isolate

_SHAPES = frozenset("t transpose permute contiguous view reshape unsqueeze squeeze detach flatten chunk".split())
_VIEWS = frozenset("T mT data".split())
_FUNCTIONS = frozenset("linear bilinear conv1d conv2d conv3d".split())


def isolate_products_cast_by_hand(context: Context) -> None:
    """An island without autocast for each product with such an operand; the others were float32, or it had raised."""
    casts = _Casts(context)
    for statement in list(context.reach.statements):
        if statement in context.safety.islands:
            continue
        for part in context.facts.tree.expressions(statement):
            operands = _operands(context, part) if isinstance(part, cst.BaseExpression) else []
            if any(map(casts.are_in, operands)):
                assert isinstance(part, cst.BaseExpression)
                isolate(context, part, operands, "the script has cast what it is made of to float32")


def _operands(context: Context, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The tensors of a product of matrices, or of a layer that is called as a function."""
    if isinstance(node, cst.Call) and called_name(node) in _FUNCTIONS:
        dotted = context.facts.names.dotted(node.func) or ""
        given = [arg.value for arg in node.args if not arg.star] if dotted.startswith("torch.") else []
        return [one for one in given if context.precisions.of(one) is not Precision.NUMBER]
    return factors(context.facts, node)


class _Casts:
    """Which values are `x.float()`, a view of it, or a name or parameter that holds nothing else."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._answers: Answers[cst.BaseExpression, bool] = Answers(False)

    def are_in(self, node: cst.BaseExpression) -> bool:
        return self._answers.to(node, lambda: self._are_in(node))

    def _are_in(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if called_name(node) == "float" and not node.args:
                return True
            moved = called_name(node) in _SHAPES and not is_of_module(self.context.facts, node.func)
            return moved and self.are_in(node.func.value)
        if isinstance(node, cst.Attribute):
            return node.attr.value in _VIEWS and self.are_in(node.value)
        if isinstance(node, cst.Subscript):
            return self.are_in(node.value)
        if not isinstance(node, cst.Name):
            return False
        value = self.context.precisions.value_before(node)
        if value is not None:
            return self.are_in(value)
        given = _given(self.context, node)
        return bool(given) and all(map(self.are_in, given))


def _given(context: Context, name: cst.Name) -> list[cst.BaseExpression]:
    """What the calls of its function give for a parameter that is given no other value."""
    variable = context.facts.names.variable_at(name)
    owner = variable.scope.owner if variable is not None else None
    if variable is None or not isinstance(owner, Function) or [one.kind for one in variable.bindings] != ["param"]:
        return []
    given = []
    for site in context.facts.calls.callers(owner):
        for param, arg in context.facts.objects.arguments(site.call, owner):
            if param.name.value == variable.name:
                given.append(arg.value)
    return given
