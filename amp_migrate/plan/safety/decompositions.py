"""Products beside a decomposition: what it takes, and what is made of its factors.

    covariance = torch.matmul(source, target.transpose(1, 2))           =>      with autocast(enabled=False): ...
    u, s, v = torch.svd(covariance)
    rotation = torch.matmul(v, u.transpose(1, 2))                       =>      with autocast(enabled=False): ...
    F.mse_loss(torch.matmul(rotation, truth), identity)                 =>      with autocast(enabled=False): ...

Half leaves a rotation 0.02 degrees off, and gradients that are off by a tenth once it has nearly converged ([run]): by
what its product with the truth differs from the identity, half rounds.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.interp.step import Made
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.isolated_products import IsolatedProducts
from amp_migrate.plan.safety.passing import keeps_float32

# A factor is turned (`v @ reflection`), then multiplied with another, then applied.
_MOST_PRODUCTS = 3


def _beside_decompositions(context: Context) -> Iterator[Made]:
    decompositions = [one for one in context.results if one.is_a("decomposition")]
    products = [one for one in context.results if context.is_product(one)] if decompositions else []
    taken = {end.node for one in decompositions for end in context.trace(one.operands[0], keeps_float32).ends}
    beside = taken | _made_of(context, decompositions, products)
    yield from (one for one in products if one.node in beside)


def _made_of(context: Context, decompositions: list[Made], products: list[Made]) -> set[cst.BaseExpression]:
    """The products of what a decomposition returned, and of those again."""
    ends = {one: [end for part in one.operands for end in context.trace(part, keeps_float32).made] for one in products}
    made = {one.node for one in decompositions}
    found: set[cst.BaseExpression] = set()
    for _ in range(_MOST_PRODUCTS):
        made = {one.node for one in products if any(end.node in made for end in ends[one])}
        found |= made
    return found


BESIDE_DECOMPOSITIONS = IsolatedProducts(_beside_decompositions, "stands beside a decomposition")
