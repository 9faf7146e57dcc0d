"""Products with the inverse of a matrix, and what is multiplied with those.

    self.register_buffer("inverse_kernel", torch.inverse(kernel))
    mapping = torch.matmul(self.inverse_kernel, points)                 =>      with autocast(enabled=False): ...
    grid = torch.matmul(self.target, mapping)                           =>      with autocast(enabled=False): ...

An inverse has large entries of both signs, whose products nearly cancel: half leaves the rounding of the large ones. A
thin-plate spline of 20 points places a pixel of 100 to a pixel and a half.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.answers import Answers
from amp_migrate.facts.tree import called_name
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision, is_of_module, tensor_operand
from amp_migrate.plan.safety.products import factors, isolate

_INVERSES = frozenset("inverse inv pinverse pinv cholesky_inverse inv_ex".split())
_SHAPES = frozenset(
    "t transpose permute view reshape unsqueeze squeeze expand repeat contiguous float detach clone to cuda".split()
)


def isolate_products_with_inverses(context: Context) -> None:
    """An island without autocast for each of them."""
    inverses = _Inverses(context)
    for statement in list(context.reach.statements):
        for part in context.facts.tree.expressions(statement):
            operands = factors(context.facts, part) if isinstance(part, cst.BaseExpression) else []
            if any(map(inverses.lead_to, operands)):
                assert isinstance(part, cst.BaseExpression)
                if context.precisions.of(part) is Precision.HALF:
                    isolate(context, part, operands, "products with an inverse nearly cancel")


class _Inverses:
    """Which values are inverses, parts of them, or products with them."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._answers: Answers[cst.BaseExpression, bool] = Answers(False)

    def lead_to(self, node: cst.BaseExpression) -> bool:
        return self._answers.to(node, lambda: self._lead_to(node))

    def _lead_to(self, node: cst.BaseExpression) -> bool:
        facts, precisions = self.context.facts, self.context.precisions
        if isinstance(node, cst.Subscript):
            return self.lead_to(node.value)
        if isinstance(node, cst.Name):
            value = precisions.value_before(node)
            return value is not None and self.lead_to(value)
        if isinstance(node, cst.Attribute):
            values = [*facts.objects.values_of(node), *precisions.buffers.get(node.attr.value, [])]
            return bool(values) and all(map(self.lead_to, values))
        if isinstance(node, cst.Call) and called_name(node) in _INVERSES:
            return tensor_operand(facts, node) is not None
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and called_name(node) in _SHAPES:
            return not is_of_module(facts, node.func) and self.lead_to(node.func.value)
        return any(map(self.lead_to, factors(facts, node)))
