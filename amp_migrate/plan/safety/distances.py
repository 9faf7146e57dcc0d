"""Squared distances by a product of matrices: |a|^2 - 2ab + |b|^2 is a small difference of large numbers.

Autocast runs the product in half; its error is that of a term that may be a thousand times the distance, and nearest
neighbours, codes and hardest triplets are chosen by it. Torch's own cdist runs in float32 for the same reason. So does
the product here, which is known by its factor of 2 (its own transpose: `self_products.py`). What stands in the same
statement leaves autocast with it, so that the squares are taken of float32 as well.

    dist = x.pow(2).sum(1, keepdim=True) - 2 * x @ codes + codes.pow(2).sum(0)
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import called_name
from amp_migrate.facts.values import literal_value
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.in_place import matrices
from amp_migrate.plan.safety.operands import is_of_module
from amp_migrate.plan.safety.products import ADDED, factors, isolate
from amp_migrate.plan.safety.self_products import is_bounded


def keep_distances(context: Context) -> None:
    """Float32 for the products of squared distances."""
    for statement in context.reach.statements:
        for part in context.facts.tree.expressions(statement):
            if isinstance(part, (cst.Call, cst.BinaryOperation)):
                product = _behind_a_name(context, part) or part
                operands = _doubled(context, product, part)
                if operands and not all(is_bounded(context, one) for one in operands):
                    isolate(context, product, operands, "is a part of squared distances")


def _doubled(context: Context, node: cst.BaseExpression, user: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The matrices of `2 * x @ y`, `-2 * torch.mm(x, y)` and `torch.addmm(z, x, y, alpha=-2)`; else nothing."""
    if isinstance(node, cst.Call) and called_name(node) in ADDED and isinstance(node.func, cst.Attribute):
        given = node.args[1:] if is_of_module(context.facts, node.func) else node.args
        alphas = [arg.value for arg in node.args if arg.keyword is None or arg.keyword.value == "alpha"]
        return matrices(given) if any(_is_two(alpha) for alpha in alphas) else []
    pair = factors(context.facts, node)
    around = [*pair, context.facts.tree.parents.get(node), user]
    if not any(isinstance(one, cst.BinaryOperation) and _factor_of_two(one) is not None for one in around):
        return []
    return [_factor_of_two(one) or one for one in pair]


def _behind_a_name(context: Context, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """`torch.mm(x, y)` for the name in `2 * product`."""
    factor = _factor_of_two(node)
    value = context.precisions.value_before(factor) if isinstance(factor, cst.Name) else None
    return value if value is not None and factors(context.facts, value) else None


def _factor_of_two(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """X of `2 * X` and `X * -2`."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
        return None
    if _is_two(node.left):
        return node.right
    return node.left if _is_two(node.right) else None


def _is_two(node: cst.BaseExpression) -> bool:
    value = literal_value(node)
    return isinstance(value, (int, float)) and abs(value) == 2
