"""Products beside a decomposition: what it takes, and what is made of its factors.

    covariance = torch.matmul(source, target.transpose(1, 2))           =>      with autocast(enabled=False): ...
    u, s, v = torch.svd(covariance)
    rotation = torch.matmul(v, u.transpose(1, 2))                       =>      with autocast(enabled=False): ...
    F.mse_loss(torch.matmul(rotation, truth), identity)                 =>      with autocast(enabled=False): ...

Half leaves a rotation 0.02 degrees off, and gradients that are off by a tenth once it has nearly converged ([run]): by
what its product with the truth differs from the identity, half rounds.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import called_name
from amp_migrate.plan.regions.trail import OpenTrail
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.linear_algebra import is_operation
from amp_migrate.plan.safety.precision import Precision, tensor_operand
from amp_migrate.plan.safety.products import factors, isolate

_DECOMPOSITIONS = frozenset("svd eigh qr".split())
# A factor is turned (`v @ reflection`), then multiplied with another, then applied.
_MOST_PRODUCTS = 3


def isolate_products_beside_decompositions(context: Context) -> None:
    """An island without autocast for each of them."""
    named = [call for call, _ in context.reach.calls() if called_name(call) in _DECOMPOSITIONS]
    decompositions = [call for call in named if is_operation(context, call)]
    products = _products(context) if decompositions else []
    beside = {*_decomposed(context, decompositions, products), *_made_of_factors(context, decompositions, products)}
    for product in products:
        if product in beside and context.precisions.of(product) is Precision.HALF:
            isolate(context, product, factors(context.facts, product), "stands beside a decomposition")


def _decomposed(
    context: Context, decompositions: list[cst.Call], products: list[cst.BaseExpression]
) -> list[cst.BaseExpression]:
    """The products that are decomposed."""
    sources = _Sources(context, products)
    for call in decompositions:
        operand = tensor_operand(context.facts, call)
        if operand is not None:
            sources.look(operand)
    return sources.found


def _made_of_factors(
    context: Context, decompositions: list[cst.Call], products: list[cst.BaseExpression]
) -> list[cst.BaseExpression]:
    """The products of what a decomposition returned, and of those again."""
    made: list[cst.BaseExpression] = list(decompositions)
    found: list[cst.BaseExpression] = []
    for _ in range(_MOST_PRODUCTS):
        sources = _Sources(context, made)
        made = [one for one in products if sources.are_behind(*factors(context.facts, one))]
        found += made
    return found


def _products(context: Context) -> list[cst.BaseExpression]:
    return [
        part
        for statement in context.reach.statements
        for part in context.facts.tree.expressions(statement)
        if isinstance(part, cst.BaseExpression) and factors(context.facts, part)
    ]


class _Sources(OpenTrail):
    """Which of some expressions a value is made of by shaping, joining and arithmetic, as far as the code shows."""

    def __init__(self, context: Context, sources: list[cst.BaseExpression]) -> None:
        super().__init__(context.facts)
        self._sources = frozenset(sources)
        self.found: list[cst.BaseExpression] = []

    def are_behind(self, *values: cst.BaseExpression) -> bool:
        before = len(self.found)
        for value in values:
            self.look(value)
        return len(self.found) > before

    def is_source(self, node: cst.BaseExpression) -> bool:
        is_one = node in self._sources
        if is_one:
            self.found.append(node)
        return is_one
