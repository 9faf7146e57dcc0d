"""Areas of boxes, which half cannot hold: it ends at 65504, an area of 256 x 256 pixels.

    area = (top + bottom) * (left + right)    =>    area = (top + bottom).float() * (left + right)

Sides that a network predicts are half where they come out of a sigmoid, as many pixels as the image has. Their product
is infinite then, the loss with it, and every step is skipped. An area is the product of two sums or differences of
parts of a tensor: what `split` has given, or a column.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import called_name
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.operands import tensor_operand
from amp_migrate.plan.safety.precision import Precision

_PARTS = frozenset("split chunk unbind".split())


def keep_areas(context: Context) -> None:
    """Float32 for one side of each area; the other is promoted."""
    for statement in context.reach.statements:
        for part in context.facts.tree.expressions(statement):
            if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.Multiply):
                if _is_side(context, part.left) and _is_side(context, part.right):
                    context.safety.keep_float32(part.left)


def _is_side(context: Context, node: cst.BaseExpression) -> bool:
    """True for a sum or difference of two parts of tensors that is half."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, (cst.Add, cst.Subtract)):
        return False
    wholes = [_whole(context, part) for part in (node.left, node.right)]
    return all(whole is not None and _is_half(context, whole) for whole in wholes)


def _whole(context: Context, part: cst.BaseExpression) -> cst.BaseExpression | None:
    """X of `X[:, 2]`, and of `d1` in `d1, d2, d3, d4 = torch.split(X, 1, 1)`; None for what is no part of a tensor."""
    if isinstance(part, cst.Subscript):
        return part.value
    variable = context.facts.names.variable_at(part) if isinstance(part, cst.Name) else None
    bindings = variable.bindings if variable is not None else []
    value = bindings[0].value if len(bindings) == 1 and bindings[0].selector else None
    is_split = isinstance(value, cst.Call) and called_name(value) in _PARTS
    return tensor_operand(context.facts, value) if isinstance(value, cst.Call) and is_split else None


def _is_half(context: Context, whole: cst.BaseExpression) -> bool:
    kind = context.precisions.of(whole)
    if kind is not Precision.FLOATING:
        return kind is Precision.HALF
    variable = context.facts.names.variable_at(whole) if isinstance(whole, cst.Name) else None
    given = context.reach.given_to_forward(variable) if variable is not None else []
    return any(context.precisions.of(one) is Precision.HALF for one in given)
