"""Areas of boxes, which half cannot hold: it ends at 65504, an area of 256 x 256 pixels.

    area = (top + bottom) * (left + right)    =>    area = (top + bottom).float() * (left + right)

Sides that a network predicts are half where they come out of a sigmoid, as many pixels as the image has. Their product
is infinite then, the loss with it, and every step is skipped. An area is the product of two sums or differences of
parts of a tensor: what `split` has given, or a column.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.models import Operation
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.passing import moves


def keep_areas(context: Context) -> None:
    """Float32 for one side of each area; the other is promoted."""
    for made in context.results:
        if (
            len(made.operands) == 2
            and made.is_a("product of numbers")
            and all(_is_side(context, one) for one in made.operands)
        ):
            context.safety.keep_float32(made.operands[0].node)


def _is_side(context: Context, side: Place) -> bool:
    """True for a sum or difference of two parts of half tensors."""
    ends = context.trace(side, moves).ends
    return bool(ends) and all(_is_of_two_parts(context, one) for one in ends)


def _is_of_two_parts(context: Context, made: Made) -> bool:
    is_sum = made.is_a("sum of two") or made.is_a("difference")
    return is_sum and all(any(_is_half(context, one) for one in _wholes(context, part)) for part in made.operands)


def _wholes(context: Context, part: Place) -> list[Place]:
    """X of `X[:, 2]`, and of `d1` in `d1, d2, d3, d4 = torch.split(X, 1, 1)`."""
    ways = context.trace(part, _nothing)
    columns = [Place(one.node.value, (), one.frames) for one in ways.places if isinstance(one.node, cst.Subscript)]
    return columns + [one.operands[0] for one in ways.ends if one.is_a("part") and one.output is not None]


def _nothing(row: Operation) -> bool:
    return False


def _is_half(context: Context, whole: Place) -> bool:
    """True also for what one of several calls gives."""
    ends = context.trace(whole, moves).ends
    return context.values.at(whole).is_half or any(context.values.of(one.node).is_half for one in ends)
