"""Gram and covariance products, whose sums of squares overflow in half.

A matrix times its own transpose sums squares over pixels or samples. Autocast runs it in half however its operands
come, and divides afterwards: features of size 4 over 128 x 128 pixels are infinite before the division. The product
runs in float32, outside of autocast; what follows takes its result as it is.

    gram = torch.bmm(f, f.transpose(1, 2)) / n    =>    with autocast(enabled=False):
                                                            gram = torch.bmm(f.float(), f.transpose(1, 2).float()) / n
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import called_name, walk
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.operands import is_of_module
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import factors, isolate

_TURNS = frozenset("transpose t permute swapaxes movedim T mT".split())
_SHAPES = _TURNS | frozenset("view reshape contiguous flatten squeeze unsqueeze clone detach float".split())
# What is divided by its norm, or sums to one, has products of at most one.
_BOUNDED = frozenset("normalize softmax".split())
# Composites of torch that take the product themselves ([run]: half results for float32 matrices).
_INSIDE = frozenset("torch.cov torch.corrcoef".split())


def isolate_self_products(context: Context) -> None:
    """An island without autocast for each product of a matrix with its own transpose."""
    for statement in context.reach.statements:
        for part in context.facts.tree.expressions(statement):
            operands = list(_operands(context, part)) if isinstance(part, cst.BaseExpression) else []
            if operands and all(context.precisions.of(one) is not Precision.OTHER for one in operands):
                assert isinstance(part, cst.BaseExpression)
                isolate(context, part, operands, "sums squares")


def _operands(context: Context, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The operands of a product of a matrix with itself; none for other expressions."""
    if isinstance(node, cst.Call) and context.facts.names.dotted(node.func) in _INSIDE:
        yield node.args[0].value
        return
    pair = factors(context.facts, node)
    if not pair:
        return
    (one, turned), (other, also_turned) = (_source(context, operand) for operand in pair)
    is_einsum = isinstance(node, cst.Call) and called_name(node) == "einsum"
    if source_key(one) == source_key(other) and (turned != also_turned or is_einsum) and not is_bounded(context, one):
        yield from pair


def _source(context: Context, node: cst.BaseExpression) -> tuple[cst.BaseExpression, bool]:
    """What an operand was before it was shaped, through names, and whether it is transposed an odd number of times."""
    turned = False
    seen: set[cst.BaseExpression] = set()
    while node not in seen:
        seen.add(node)
        if isinstance(node, cst.Attribute) and node.attr.value in _TURNS:
            turned, node = not turned, node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and called_name(node) in _SHAPES:
            is_function = is_of_module(context.facts, node.func)
            inner = node.args[0].value if is_function and node.args else node.func.value
            turned, node = turned != (called_name(node) in _TURNS), inner
        elif isinstance(node, cst.Name):
            value = context.precisions.value_before(node)
            if value is None or not _is_shaped(value):
                break
            node = value
    return node, turned


def _is_shaped(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.Attribute):
        return value.attr.value in _TURNS
    return isinstance(value, cst.Name) or (
        isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and called_name(value) in _SHAPES
    )


def is_bounded(context: Context, source: cst.BaseExpression) -> bool:
    """True for what was divided by its norm, or sums to one."""
    value = context.precisions.behind(source)
    return value is not None and any(
        isinstance(part, cst.Call) and called_name(part) in _BOUNDED | {"norm"} for part in walk(value)
    )
