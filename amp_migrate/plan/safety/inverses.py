"""Products with the inverse of a matrix, and what is multiplied with those.

    self.register_buffer("inverse_kernel", torch.inverse(kernel))
    mapping = torch.matmul(self.inverse_kernel, points)                 =>      with autocast(enabled=False): ...
    grid = torch.matmul(self.target, mapping)                           =>      with autocast(enabled=False): ...

An inverse has large entries of both signs, whose products nearly cancel: half leaves the rounding of the large ones. A
thin-plate spline of 20 points places a pixel of 100 to a pixel and a half.
"""

from __future__ import annotations

from amp_migrate.models import Operation
from amp_migrate.models.queries import in_half
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.passing import moves
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import isolate


def isolate_products_with_inverses(context: Context) -> None:
    """An island without autocast for each of them."""
    for product in [one for one in context.results() if context.is_product(one)]:
        ends = [end for operand in product.operands for end in context.trace(operand, _is_on_the_way).ends]
        if any(context.is_a("inverse", end) for end in ends):
            if context.precisions.of(product.node) is Precision.HALF:
                isolate(context, product, "products with an inverse nearly cancel")


def _is_on_the_way(row: Operation) -> bool:
    return moves(row) or (row.product and in_half(row))
