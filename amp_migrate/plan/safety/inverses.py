"""Products with the inverse of a matrix, and what is multiplied with those.

    self.register_buffer("inverse_kernel", torch.inverse(kernel))
    mapping = torch.matmul(self.inverse_kernel, points)                 =>      with autocast(enabled=False): ...
    grid = torch.matmul(self.target, mapping)                           =>      with autocast(enabled=False): ...

An inverse has large entries of both signs, whose products nearly cancel: half leaves the rounding of the large ones. A
thin-plate spline of 20 points places a pixel of 100 to a pixel and a half.
"""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.interp.step import Made
from amp_migrate.models import Operation
from amp_migrate.models.queries import in_half
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.isolated_products import IsolatedProducts
from amp_migrate.plan.safety.passing import moves


def _with_inverses(context: Context) -> Iterator[Made]:
    for product in filter(context.is_product, context.results):
        ends = [end for operand in product.operands for end in context.trace(operand, _is_on_the_way).ends]
        if any(end.is_a("inverse") for end in ends):
            yield product


def _is_on_the_way(row: Operation) -> bool:
    return moves(row) or (row.product and in_half(row))


WITH_INVERSES = IsolatedProducts(_with_inverses, "products with an inverse nearly cancel")
