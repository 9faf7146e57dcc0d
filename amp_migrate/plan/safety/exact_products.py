"""Products of matrices that autocast must not round: what is made of them goes where the rounding is all that is left.

    cosine = F.linear(F.normalize(x), F.normalize(w))      =>    with autocast(enabled=False):
    angle = torch.acos(cosine)                                       cosine = F.linear(F.normalize(x.float()), ...)

`.float()` on the result comes too late: the product that makes it runs in float32, in an island of its own. Each row
says which values have to be exact, and how far back their products are looked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import libcst as cst

from amp_migrate.facts.tree import called_name, walk
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import Passes, trace
from amp_migrate.interp.step import Made
from amp_migrate.models import Dtype, traits
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.isolated_products import IsolatedProducts
from amp_migrate.plan.safety.numbers import numbers
from amp_migrate.plan.safety.passing import adds_up, bounds, bounds_and_epsilons, computes_linearly, moves
from amp_migrate.plan.safety.products import factors

_OF_PLACES = frozenset((Dtype.NUMBER, Dtype.INTEGER, Dtype.BOOLEAN))


def _behind(values: Callable[[Context], Iterator[Place]], passes: Passes, why: str) -> IsolatedProducts:
    """The products that `values` come from through operations that pass."""
    return IsolatedProducts(
        lambda context: (one for value in values(context) for one in context.products_behind(value, passes)), why
    )


def angles(context: Context) -> Iterator[Place]:
    """X of `acos(X)`: from 0.9998 on a cosine is one in half, without a derivative; the trace of a product may be X."""
    yield from (made.operands[0] for made in context.results if made.is_a("arc"))


def waves(context: Context) -> Iterator[Place]:
    """X of `sin(X)`: from 256 on half numbers are a quarter of a radian apart."""
    yield from (made.operands[0] for made in context.results if made.is_a("wave"))


def lengths_beside(context: Context) -> Iterator[Place]:
    """Both sides of `x @ y.t() / outer(x.norm(dim=1), y.norm(dim=1))`: vectors of length 256 have infinite products."""
    for made in context.results:
        if made.is_a("quotient") and len(made.operands) == 2:
            divisors = context.trace(made.operands[1], bounds_and_epsilons).ends
            if divisors and all(_is_product_of_norms(context, one) for one in divisors):
                yield from made.operands


def _is_product_of_norms(context: Context, made: Made) -> bool:
    if len(made.operands) != 2 or not (context.is_product(made) or made.is_a("product of numbers")):
        return False
    norms = [context.trace(one, bounds).ends for one in made.operands]
    return all(ends and all(one.is_a("norm") for one in ends) for ends in norms)


def powers(context: Context) -> Iterator[Made]:
    """`w @ torch.stack([t**k for k in range(5)])`: of 41 the cube is infinite. So are squares of sums of waves, as in
    `filters @ torch.stft(x, 512).abs() ** 2`.
    """
    for made in context.results:
        for factor in factors(context, made):
            for power in context.trace(factor, moves).ends:
                if power.is_a("power") and len(power.operands) == 2:
                    known = numbers(context.facts, power.operands[1].node) or [math.inf]
                    if max(known) > 2 or (max(known) == 2 and _is_of_waves(context, power.operands[0])):
                        yield made


def _is_of_waves(context: Context, value: Place) -> bool:
    """True for `torch.fft.rfft(x).abs()`."""
    ends = context.trace(value, moves).ends
    return any(Dtype.COMPLEX in context.values.at(one).dtypes for end in ends for one in end.operands[:1])


def choices(context: Context) -> Iterator[Made]:
    """`codes @ table` of ones at chosen places: where a row that is not chosen is infinite in half, the others are NaN,
    and `codes.t() @ features` sums as many rows as there are.
    """
    for made in context.results:
        if any(_is_of_marks(context, one) for one in factors(context, made)):
            yield made


def chains(context: Context) -> Iterator[Made]:
    """`pose = motion @ pose` of a loop that starts with an identity: each round adds its rounding."""
    for made in context.results:
        for factor in factors(context, made):
            ends = context.trace(factor, lambda row: moves(row) or row.bare == "repeat").ends
            if any(one.is_a("identity") for one in ends) and any(one.node is made.node for one in ends):
                yield made


def _is_of_marks(context: Context, factor: Place) -> bool:
    """True for `F.one_hot(labels)`, `torch.eye(9)[labels]`, `(labels[:, None] == classes)`, and for zeros with numbers
    where integers say so.
    """
    ways = trace(context.steps, factor, moves, of_dtype=True)
    written = [one for place in ways.places for one in context.steps.of(place).written]
    is_chosen = any(isinstance(one.node, cst.Subscript) for one in ways.places)
    ends = [one for one in ways.ends if not (one.is_a("marks") or (is_chosen and one.is_a("identity")))]
    filled = [one for one in ends if one.is_a("fill") and _is_of_zeros(context, one.operands[0])]
    is_known = all(one in filled or (written and one.is_a("zeros")) for one in ends)
    written += [given for one in filled for given in one.operands[1:]]
    are_places = all(context.values.at(one).dtypes <= _OF_PLACES for one in written)
    return bool(ways.ends) and not ways.open and is_known and are_places


def _is_of_zeros(context: Context, value: Place) -> bool:
    return all(one.is_a("zeros") for one in context.trace(value, moves).ends)


def statistics(context: Context) -> Iterator[Place]:
    """Y of `self.mean.mul_(decay).add_(Y)`: an overflow in what a forward keeps stays for the rest of the training."""
    for call, _ in context.reach.calls():
        if called_name(call) in traits.named("kept") and isinstance(call.func, cst.Attribute) and _is_kept(call.func):
            yield from (Place(arg.value) for arg in call.args)


def _is_kept(func: cst.Attribute) -> bool:
    names = [part for part in walk(func.value) if isinstance(part, cst.Attribute)]
    return any(isinstance(one.value, cst.Name) and one.value.value == "self" for one in names)


EXACT = (
    IsolatedProducts(powers, "it multiplies powers"),
    IsolatedProducts(choices, "it picks rows of a table"),
    IsolatedProducts(chains, "it is multiplied again and again"),
    _behind(angles, adds_up, "its angle is taken"),
    _behind(lengths_beside, bounds, "it is divided by norms later on"),
    _behind(waves, computes_linearly, "its sine or cosine is taken"),
    _behind(statistics, bounds, "is kept"),
)
