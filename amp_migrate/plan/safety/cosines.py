"""Angles of a cosine that half has rounded: next to one, its sine and its arc are nothing but that rounding.

    cosine = F.linear(F.normalize(x), F.normalize(w))      =>    with autocast(enabled=False):
    sine = torch.sqrt(1.0 - cosine ** 2)                             cosine = F.linear(F.normalize(x.float()), ...)

From 0.9998 on a cosine is one in half, where the root and the arc have no derivative: NaN gradients. `.float()` on the
cosine comes too late; the product that makes it runs in float32.
"""

from __future__ import annotations

from functools import partial

import libcst as cst

from amp_migrate.facts.each_once import each_once
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import called_name
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision, is_of_module, tensor_operand
from amp_migrate.plan.safety.products import factors, is_single_alone

_ARCS = frozenset("acos arccos asin arcsin".split())
_ROOTS = frozenset(("sqrt",))
_BOUNDS = frozenset("clamp clamp_ clip float".split())
_JOINS = frozenset(("cat", "concat"))
_MOVES = frozenset(("cuda", "to"))
_SHAPES = frozenset("t transpose permute contiguous view".split())
_PARTS = _SHAPES | frozenset("reshape squeeze unsqueeze flatten clone gather index_select masked_select diag".split())


def isolate_cosines(context: Context) -> None:
    """An island without autocast for each product whose angle is taken."""
    for call, _ in list(context.reach.calls()):
        taken = tensor_operand(context.facts, call)
        cosine = taken if called_name(call) in _ARCS else None
        if called_name(call) in _ROOTS and taken is not None:
            cosine = _under_root(context, taken)
        for node in each_once([cosine], partial(_parts, context)) if cosine is not None else ():
            if _operands(context, node) and context.precisions.of(node) is Precision.HALF:
                _isolate(context, node)


def _isolate(context: Context, product: cst.BaseExpression) -> None:
    statement = context.facts.tree.statement_of(product)
    if context.can_be_island(statement, product):
        for operand in _operands(context, product):
            _keep(context, operand)
        context.safety.isolate(statement)


def _under_root(context: Context, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """X of `1 - X * X`, `1.0 - torch.pow(X, 2)` and `(1 - X ** 2).clamp(0, 1)`, through names."""
    node = _plain(context, node)
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Subtract):
        return None
    square = _plain(context, node.right)
    if context.facts.text(node.left) not in ("1", "1.0", "1."):
        return None
    if isinstance(square, cst.BinaryOperation) and isinstance(square.operator, (cst.Power, cst.Multiply)):
        return square.left
    if isinstance(square, cst.Call) and called_name(square) in ("pow", "square"):
        return tensor_operand(context.facts, square)
    return None


def _plain(context: Context, node: cst.BaseExpression) -> cst.BaseExpression:
    """What a name was given, without bounds around it."""
    return [*each_once([node], partial(_within, context))][-1]


def _within(context: Context, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    value = context.precisions.value_before(node) if isinstance(node, cst.Name) else None
    if isinstance(node, cst.Call) and called_name(node) in _BOUNDS:
        value = tensor_operand(context.facts, node)
    return [value] if value is not None else []


def _parts(context: Context, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a cosine that is no product itself may be, as any branch leaves it, or is joined of, or a part of."""
    if _operands(context, node):
        return []
    if isinstance(node, cst.Name) and (variable := context.facts.names.variable_at(node)) is not None:
        before = reaching(variable, context.facts.tree.statement_of(node))
        return [one.value for one in before if one.kind == "assign" and one.value is not None and not one.selector]
    if isinstance(node, cst.Call) and called_name(node) in _JOINS and node.args:
        joined = node.args[0].value
        return [one.value for one in joined.elements] if isinstance(joined, (cst.List, cst.Tuple)) else []
    if isinstance(node, cst.Call) and called_name(node) in _BOUNDS | _MOVES | _PARTS:
        taken = tensor_operand(context.facts, node)
        return [taken] if taken is not None else []
    return [node.value] if isinstance(node, cst.Subscript) else []


def _operands(context: Context, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, cst.Call) and called_name(node) == "linear" and isinstance(node.func, cst.Attribute):
        given = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
        return given if len(given) == 2 and is_of_module(context.facts, node.func) else []
    return factors(context.facts, node)


def _keep(context: Context, operand: cst.BaseExpression) -> None:
    """Float32 for an operand in an island: what is normalised is cast before."""
    if isinstance(operand, cst.Call) and (called_name(operand) == "normalize" or called_name(operand) in _SHAPES):
        taken = tensor_operand(context.facts, operand)
        if taken is not None:
            _keep(context, taken)
            return
    if not is_single_alone(context, operand):
        context.safety.keep_float32(operand)
