"""Variances and covariances as differences: what is left where two averages nearly cancel.

    (x**2).mean(1) - x.mean(1)**2                    =>    (x**2).mean(1) - x.float().mean(1)**2
    F.conv2d(x * y, window) - mean_x * mean_y        =>    with autocast(enabled=False): ...
    self.window(x * y) - mean_x * mean_y             =>    with autocast(enabled=False): ...

Half rounds a mean of 1 by 5e-4, which is all of a variance of 1e-3: where pictures have little contrast, the gradients
of their similarity (SSIM) are off by half of their length ([run]). The averages are float32, and the products as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.models import Operation
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.passing import computes_linearly
from amp_migrate.plan.safety.products import ends_in_half, isolate, multiplies


def keep_variances(context: Context) -> None:
    """Float32 for what is averaged on both sides of `(x * y).mean() - x.mean() * y.mean()`, and for those products."""
    averages: dict[Made, None] = {}
    for made in context.results:
        if made.is_a("difference") and len(made.operands) == 2:
            averages |= dict.fromkeys(_averages_of_a_variance(context, *made.operands))
    for one in averages:
        if not ends_in_half(one) and context.precisions.of(one.node).may_be_half:
            context.safety.keep_float32(one.operands[0].node)
    for one in averages:
        if ends_in_half(one) and context.runs(one.node) and context.is_in_half(one):
            isolate(context, one, "is a part of a variance")


def _averages_of_a_variance(context: Context, of_products: Place, of_means: Place) -> Iterator[Made]:
    """The averages on both sides, and the products of which one side takes an average, what is inside first."""
    averaged, products = _averaged(context, of_products)
    multiplied = _factors_behind(context, of_means) if products else []
    means = [mean for one in multiplied for mean in reversed(_averaged(context, one)[0])]
    if {_kind(one) for one in averaged} & {_kind(one) for one in means}:
        yield from (*products, *reversed(averaged), *means)


def _kind(made: Made) -> str:
    (*_, last) = made.operations
    return last.bare if last is not None else ""


def _averaged(context: Context, value: Place) -> tuple[list[Made], list[Made]]:
    """The averages that a value is made of, by a window or over dimensions, and the products that are averaged."""
    squares = partial(multiplies, context)
    ways = context.trace(value, _passes, squares)
    averages = [one for one in ways.passed if one.is_a("average")]
    windows = [one for one in ways.ends if ends_in_half(one)] if not averages else []
    inside = [end for one in windows for end in context.trace(one.operands[0], computes_linearly, squares).ends]
    beside = context.trace(value, computes_linearly, squares).ends
    return averages or windows, [one for one in (*ways.ends, *inside) if one not in beside and squares(one)]


def _factors_behind(context: Context, value: Place) -> list[Place]:
    squares = partial(multiplies, context)
    ends = context.trace(value, computes_linearly, squares).ends
    return [one for made in ends if squares(made) for one in made.operands[:2]]


def _passes(row: Operation) -> bool:
    return computes_linearly(row) or row.is_a("average")
