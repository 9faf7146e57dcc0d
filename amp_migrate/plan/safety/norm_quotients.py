"""Cosines of vectors that nobody has normalised: a product that is divided by a product of norms.

    cosine = x @ y.t() / torch.outer(x.norm(dim=1), y.norm(dim=1))      =>      with autocast(enabled=False): ...

The division comes too late: vectors of length 256 have infinite products in half, and so have their norms, and the
quotient is not a number.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import called_name
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import factors, isolate

_NORMS = frozenset("norm vector_norm".split())
_OUTER = frozenset("outer ger".split())
_SHAPES = frozenset(
    "t transpose permute view reshape unsqueeze squeeze clamp clamp_min clip float expand detach".split()
)


def isolate_norm_quotients(context: Context) -> None:
    """An island without autocast for the products of matrices in such a quotient."""
    for statement in list(context.reach.statements):
        for part in context.facts.tree.expressions(statement):
            if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.Divide):
                divisor = _behind(context, part.right)
                if _is_product_of_norms(context, divisor):
                    for product in (_behind(context, part.left), divisor):
                        _isolate(context, product)


def _isolate(context: Context, product: cst.BaseExpression) -> None:
    operands = factors(context.facts, product)
    if operands and context.precisions.of(product) is Precision.HALF:
        isolate(context, product, operands, "it is divided by norms later on")


def _is_product_of_norms(context: Context, node: cst.BaseExpression) -> bool:
    pair = factors(context.facts, node)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        pair = [node.left, node.right]
    elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        return _is_product_of_norms(context, _behind(context, node.left))  # and a small number
    elif isinstance(node, cst.Call) and called_name(node) in _OUTER:
        pair = [arg.value for arg in node.args]
    return len(pair) == 2 and all(_is_norm(_behind(context, one)) for one in pair)


def _is_norm(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and called_name(node) in _NORMS


def _behind(context: Context, node: cst.BaseExpression) -> cst.BaseExpression:
    """What a name stands for, without what only gives it another shape or a bound."""
    while True:
        if isinstance(node, cst.Name) and (value := context.precisions.value_before(node)) is not None:
            node = value
        elif isinstance(node, cst.Subscript):
            node = node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and called_name(node) in _SHAPES:
            node = node.func.value
        else:
            return node
