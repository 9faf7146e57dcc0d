"""Products of matrices that run in float32, outside of autocast, for what they are made of or a part of.

A matrix times its own transpose sums squares over pixels or samples. Autocast runs it in half however its operands
come, and divides afterwards: features of size 4 over 128 x 128 pixels are infinite before the division.

    gram = torch.bmm(f, f.transpose(1, 2)) / n    =>    with autocast(enabled=False):
                                                            gram = torch.bmm(f.float(), f.transpose(1, 2).float()) / n

Squared distances by a product, |a|^2 - 2ab + |b|^2, are small differences of large numbers. The error of a product in
half is that of a term that may be a thousand times the distance, and nearest neighbours, codes and hardest triplets are
chosen by it. Torch's own cdist runs in float32 for the same reason. The product is known by its factor of 2. The
squares beside it are float32 as well: a power is under autocast, what is multiplied by itself gets a cast.

    dist = x.pow(2).sum(1, keepdim=True) - 2 * x @ codes + (codes.float() * codes).sum(0)

What a script for a model of half weights has cast to float32 by hand had products in float32 under O2: nothing was cast
by the operation. Autocast casts operands again.

    return torch.mm(x.float(), y.float().t())     =>    with autocast(enabled=False): ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator
from functools import partial

import libcst as cst

from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.contents import ANY
from amp_migrate.facts.tree import called_name, walk
from amp_migrate.facts.values import literal_value
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import trace
from amp_migrate.interp.step import Made
from amp_migrate.models import Dtype
from amp_migrate.models.queries import follows, half_inside, makes, rearranges
from amp_migrate.plan.regions.forwards import DATA_CALLS
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.passing import adds_up, bounds_and_epsilons, casts_to, computes_linearly
from amp_migrate.plan.safety.products import factors, isolate, multiplies, tensors


@dataclasses.dataclass(frozen=True)
class IsolatedProducts:
    """The `products`, and what is said where one of them cannot have an island."""

    products: Callable[[Context], Iterator[Made]]
    why: str


def isolate_products(context: Context, *rows: IsolatedProducts) -> list[Made]:
    """The products that some rows find: each gets an island without autocast, or a note where there can be none."""
    found: list[Made] = []
    for row in rows:
        products = list(row.products(context))
        found += products
        for product in products:
            if context.runs(product.node) and context.is_in_half(product):
                isolate(context, product, row.why)
    return found


# -- squares --------------------------------------------------------------------------------------------


def squares(context: Context) -> Iterator[Made]:
    """Products of a matrix with its own transpose, also those that torch takes itself: `torch.cov(x)`."""
    for made in context.results:
        is_inside = made.operation is not None and half_inside(made.operation)
        if is_inside or _is_square(context, made, factors(context, made)):
            yield made


def _is_square(context: Context, made: Made, pair: tuple[Place, ...]) -> bool:
    """True for a pair of one matrix, once turned; the equation of an einsum says how it turns.

    So are `x.unsqueeze(1)` and `x.unsqueeze(2)`.
    """
    if not pair:
        return False
    (one, turned, shape), (other, also_turned, other_shape) = (_before_shaping(context, operand) for operand in pair)
    is_turned = (turned != also_turned) != made.is_a("transposes") or made.is_a("einsum") or shape != other_shape
    is_one = is_turned and _is_same(context, one, other)
    return is_one and not _is_bounded(context, pair[0])


_OF_SEVERAL = (cst.Subscript, cst.ListComp, cst.GeneratorExp)  # elements of one thing are told apart by their keys


def _before_shaping(context: Context, place: Place) -> tuple[Place, bool, list[str]]:
    """What an operand was before it was shaped, whether it is transposed an odd number of times, and its new shapes."""
    turned = False
    shapes: list[str] = []
    seen: set[Place] = set()
    while place not in seen and not isinstance(place.node, _OF_SEVERAL):
        seen.add(place)
        step = context.steps.of(place)
        (made,) = step.made if len(step.made) == 1 and not step.same else (None,)
        if len(step.same) == 1 and not step.made and ANY not in step.same[0].keys:  # two loops have two elements
            (place,) = step.same
        elif made is not None and made.operation is not None and rearranges(made.operation) and made.operands:
            if made.is_a("turn"):
                turned = not turned
            elif made.operation.shape_only and isinstance(made.node, cst.Call):
                shapes += [context.facts.text(arg) for arg in made.node.args]
            place = made.operands[0]
    return place, turned, shapes


def _is_same(context: Context, one: Place, other: Place) -> bool:
    if (one.keys, one.frames) != (other.keys, other.frames) or source_key(one.node) != source_key(other.node):
        return False
    statement_of = context.facts.tree.statement_of
    return isinstance(one.node, (cst.Name, cst.Attribute)) or statement_of(one.node) is statement_of(other.node)


def _is_bounded(context: Context, factor: Place) -> bool:
    """True for what was divided by its norm, or sums to one: its products are at most one."""
    ways = context.trace(factor, computes_linearly, lambda made: _is_unit(context, made))
    return bool(ways.ends) and all(_is_unit(context, one) for one in ways.ends)


def _is_unit(context: Context, made: Made) -> bool:
    if not made.is_a("quotient") or len(made.operands) != 2:
        return made.is_a("unit") or made.is_a("softmax")
    divisors = context.trace(made.operands[1], bounds_and_epsilons).ends
    return bool(divisors) and all(one.is_a("norm") for one in divisors)


# -- distances ------------------------------------------------------------------------------------------


def distances(context: Context) -> Iterator[Made]:
    """The products of `2 * x @ y`, `-2 * torch.mm(x, y)` and `torch.addmm(z, x, y, alpha=-2)`."""
    for made in context.results:
        for product in _doubled(context, made):
            if not all(_is_bounded(context, one) for one in factors(context, product)):
                yield product


def keep_squares_beside(context: Context, distances: list[Made]) -> None:
    """Float32 for what is multiplied by itself, number by number, and added to such a product."""
    products = {product.node for product in distances}
    squares_of = partial(multiplies, context)
    for made in context.results if products else ():
        if made.is_a("difference") or made.is_a("sum of two"):
            ends = [one for place in made.operands for one in context.trace(place, adds_up, squares_of).ends]
            for one in ends if any(end.node in products for end in ends) else ():
                if squares_of(one) and context.precisions.of(one.node).may_be_half:
                    context.safety.keep_float32(one.operands[0].node)


def _doubled(context: Context, made: Made) -> Iterator[Made]:
    pair = factors(context, made)
    if pair and made.is_a("sum with a product") and isinstance(made.node, cst.Call):
        alphas = (arg.value for arg in made.node.args if arg.keyword is None or arg.keyword.value == "alpha")
        yield from (made,) if any(map(_is_two, alphas)) else ()
    elif pair:
        ends = [end for one in pair for end in context.trace(one, rearranges).ends]
        yield from (made,) if any(map(_doubles, ends)) else ()
    elif _doubles(made):
        ends = [end for one in made.operands for end in context.trace(one, rearranges).ends]
        yield from (end for end in ends if factors(context, end))


def _doubles(made: Made) -> bool:
    """True for `2 * X` and `X * -2`."""
    return made.is_a("product of numbers") and any(_is_two(one.node) for one in made.operands)


def _is_two(node: cst.BaseExpression) -> bool:
    value = literal_value(node)
    return isinstance(value, (int, float)) and abs(value) == 2


# -- casts by hand --------------------------------------------------------------------------------------


def cast_by_hand(context: Context) -> Iterator[Made]:
    """Products with an operand that was cast to float32; the others were float32, or it had raised."""
    for made in context.results:
        if factors(context, made) and any(_is_cast_by_hand(context, one) for one in tensors(made)):
            yield made


def _is_cast_by_hand(context: Context, operand: Place, seen: frozenset[Place | None] = frozenset()) -> bool:
    """Also `torch.ones(n, dtype=cost.dtype) * cost` and `lengths.to(cost.dtype)` of such a cost."""
    ways = trace(context.steps, operand, follows, _casts_to_float32, of_dtype=True)
    ends = [one for one in ways.ends if one.operation is None or not makes(one.operation)]
    if any(map(_casts_to_float32, ends)):  # another way, or another call, may give half
        return True
    typed = [context.typed_as(one) for one in ends]
    is_typed = all(one in seen or (one and _is_cast_by_hand(context, one, seen | {one})) for one in typed)
    return bool(ends) and not ways.open and is_typed


def given_casts(context: Context, unread: Collection[str]) -> set[str]:
    """Those of the `unread` names of other files that may run on something cast by hand."""
    found: set[str] = set()
    for call, _ in context.reach.calls() if unread else ():
        is_read = called_name(call) in DATA_CALLS or context.made(call) or context.facts.objects.candidates(call)
        if not is_read and any(_has_cast(context, arg.value) for arg in call.args):
            named = context.facts.names.imported_as(call.func)
            found.update(set(unread).intersection(named) if named else unread)
    return found


def _has_cast(context: Context, given: cst.BaseExpression) -> bool:
    ways = (
        context.trace(Place(part), follows, _casts_to_float32)
        for part in walk(given)
        if isinstance(part, cst.BaseExpression)
    )
    return any(map(_casts_to_float32, (end for way in ways for end in way.ends)))


def _casts_to_float32(made: Made) -> bool:
    return casts_to(made, Dtype.SINGLE)


SQUARES = IsolatedProducts(squares, "sums squares")
DISTANCES = IsolatedProducts(distances, "is a part of squared distances")
CAST_BY_HAND = IsolatedProducts(cast_by_hand, "the script has cast what it is made of to float32")
