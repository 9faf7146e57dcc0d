"""Products with the inverse of a matrix, and what is multiplied with those.

    self.register_buffer("inverse_kernel", torch.inverse(kernel))
    mapping = torch.matmul(self.inverse_kernel, points)                 =>      with autocast(enabled=False): ...
    grid = torch.matmul(self.target, mapping)                           =>      with autocast(enabled=False): ...

An inverse has large entries of both signs, whose products nearly cancel: half leaves the rounding of the large ones. A
thin-plate spline of 20 points places a pixel of 100 to a pixel and a half.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import called_name
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision, is_of_module, tensor_operand
from amp_migrate.plan.safety.products import factors, isolate

_INVERSES = frozenset("inverse inv pinverse pinv cholesky_inverse inv_ex".split())
_SHAPES = frozenset(
    "t transpose permute view reshape unsqueeze squeeze expand repeat contiguous float detach clone to cuda".split()
)
_DEEPEST = 12


def isolate_products_with_inverses(context: Context) -> None:
    """An island without autocast for each of them."""
    for statement in list(context.reach.statements):
        for part in context.facts.tree.expressions(statement):
            operands = factors(context.facts, part) if isinstance(part, cst.BaseExpression) else []
            if any(_comes_from_inverse(context, one, _DEEPEST) for one in operands):
                assert isinstance(part, cst.BaseExpression)
                if context.precisions.of(part) is Precision.HALF:
                    isolate(context, part, operands, "products with an inverse nearly cancel")


def _comes_from_inverse(context: Context, node: cst.BaseExpression, depth: int) -> bool:
    if depth == 0:
        return False
    if isinstance(node, cst.Subscript):
        return _comes_from_inverse(context, node.value, depth - 1)
    if isinstance(node, cst.Name):
        value = context.precisions.value_before(node)
        return value is not None and _comes_from_inverse(context, value, depth - 1)
    if isinstance(node, cst.Attribute):
        values = [*context.facts.objects.values_of(node), *context.precisions.buffers.get(node.attr.value, [])]
        return bool(values) and all(_comes_from_inverse(context, value, depth - 1) for value in values)
    if isinstance(node, cst.Call) and called_name(node) in _INVERSES:
        operand = tensor_operand(context.facts, node)
        return operand is not None
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and called_name(node) in _SHAPES:
        return not is_of_module(context.facts, node.func) and _comes_from_inverse(context, node.func.value, depth - 1)
    return any(_comes_from_inverse(context, one, depth - 1) for one in factors(context.facts, node))
