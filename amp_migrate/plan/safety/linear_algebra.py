"""Linear algebra and spectral code, which half has no kernels for.

Autocast leaves these operations alone, so they run in the dtype they are given: inverses, decompositions and solvers
raise for half ("Low precision dtypes not supported", "not implemented for 'Half'"), transforms raise or give complex
halves, which little else takes. On float32 they run in float32, inside of autocast as well, so `.float()` is all they
need. A few are composites whose own products autocast casts again: those get an island ([run], torch 2.13).

    inverse = torch.inverse(cov)       =>    inverse = torch.inverse(cov.float())
    pinv = torch.pinverse(x)           =>    with autocast(enabled=False):
                                                 pinv = torch.pinverse(x.float())
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.findings import Refusal
from amp_migrate.interp.step import Made
from amp_migrate.interp.uses import shows_tensor
from amp_migrate.models import Operation
from amp_migrate.models.queries import breaks_in_half, casts_again, in_half, takes_complex
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.isolated_products import IsolatedProducts
from amp_migrate.plan.safety.passing import keeps_float32, moves
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import isolate_alone
from amp_migrate.rules.safety import LINEAR_ALGEBRA


def keep_linear_algebra(context: Context) -> None:
    """Float32 for the matrices and signals of operations without a half kernel. Raises Refusal."""
    for made in context.results:
        row = made.operation
        if row is None or not breaks_in_half(row) or not _is_of_tensor(context, made):
            continue
        for operand in (one.node for one in made.operands[: row.inputs]):
            kind = context.precisions.of(operand)
            if takes_complex(row) and kind is Precision.UNKNOWN:
                _check_is_real(context, made.node, operand)
            if kind.may_be_half or kind is Precision.UNKNOWN:
                context.safety.keep_float32(operand)
        if casts_again(row):
            isolate_alone(context, made, "takes matrix products of its own")


def _is_of_tensor(context: Context, made: Made) -> bool:
    """True for torch's functions, and for the methods of what is certainly a tensor: models have an `inverse`, too."""
    if made.operation is None or made.operation.kind != "method":
        return True
    receiver = made.operands[0].node
    if not context.values.of(receiver).is_open:
        return context.precisions.of(receiver).is_tensor
    others = [load for load in context.facts.names.loads_at(receiver) if load is not receiver]
    return any(shows_tensor(context.facts, load) for load in others)  # beside this very call


def _check_is_real(context: Context, call: cst.BaseExpression, operand: cst.BaseExpression) -> None:
    """Raises Refusal where code that speaks of complex numbers transforms what it was given."""
    function = context.facts.tree.function_of(call)
    if "complex" in context.facts.text(function.root.node):
        text = context.facts.text(operand)
        message = f"{text} may be half, which has no transform, or complex, which float() would cut"
        raise Refusal(LINEAR_ALGEBRA, call, message)


# Products beside a decomposition: what it takes, and what is made of its factors.
#
#     covariance = torch.matmul(source, target.transpose(1, 2))           =>      with autocast(enabled=False): ...
#     u, s, v = torch.svd(covariance)
#     rotation = torch.matmul(v, u.transpose(1, 2))                       =>      with autocast(enabled=False): ...
#     F.mse_loss(torch.matmul(rotation, truth), identity)                 =>      with autocast(enabled=False): ...
#
# Half leaves a rotation 0.02 degrees off, and gradients that are off by a tenth once it has nearly converged ([run]):
# by what its product with the truth differs from the identity, half rounds.

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


# Products with the inverse of a matrix, and what is multiplied with those.
#
#     self.register_buffer("inverse_kernel", torch.inverse(kernel))
#     mapping = torch.matmul(self.inverse_kernel, points)                 =>      with autocast(enabled=False): ...
#     grid = torch.matmul(self.target, mapping)                           =>      with autocast(enabled=False): ...
#
# An inverse has large entries of both signs, whose products nearly cancel: half leaves the rounding of the large ones.
# A thin-plate spline of 20 points places a pixel of 100 to a pixel and a half.


def _with_inverses(context: Context) -> Iterator[Made]:
    for product in filter(context.is_product, context.results):
        ends = [end for operand in product.operands for end in context.trace(operand, _is_on_the_way).ends]
        if any(end.is_a("inverse") for end in ends):
            yield product


def _is_on_the_way(row: Operation) -> bool:
    return moves(row) or (row.product and in_half(row))


WITH_INVERSES = IsolatedProducts(_with_inverses, "products with an inverse nearly cancel")
