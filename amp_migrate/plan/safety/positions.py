"""Positions that pass through the dtype of a half tensor: above 2048 half has no odd numbers, above 65504 none at all.

    frame = signal.new_tensor(frame).long()    =>    frame = signal.float().new_tensor(frame).long()

The new tensor is wanted for its device; its dtype is the signal's by accident, and the cast to integers shows that the
numbers have to be exact. Whole numbers that are counted are exact in any case:

    torch.arange(n).type_as(signal)            =>    torch.arange(n).type_as(signal.float())

So it is with places that a network says: half numbers between 2048 and 4096 are 2 apart, and 4999 is 5000.

    place = torch.sigmoid(h) * 4999            =>    place = torch.sigmoid(h).float() * 4999
    table[place.floor().long()]
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.models import Dtype, Operation
from amp_migrate.models.queries import passes_on
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.numbers import magnifies, numbers
from amp_migrate.plan.safety.passing import computes_linearly, moves
from amp_migrate.plan.safety.precision import Precision

_WHOLE = 2048  # up to it half has each whole number
_BOUNDS = ("start", "end")
_INTEGER = frozenset((Dtype.INTEGER,))


def keep_positions(context: Context) -> None:
    """Float32 for the tensors after which numbers are typed that become integers at once, or that are counted."""
    for call, _ in context.reach.calls():
        for made in context.made(call):
            model = context.typed_as(made)
            if model is None or not any(_counts_far(context, one) for one in _counted(context, made)):
                continue
            value = context.values.at(model)
            if value.is_tensor and value.may_be_half and not value.is_open:
                context.safety.keep_float32(model.node)
    for made in context.results:
        for typed in context.steps.of(made.operands[0]).made if _casts_to_integers(made) else ():
            for model in _typed_after(context, typed):
                value = context.values.of(model.node)
                if value.is_tensor and value.may_be_half:
                    context.safety.keep_float32(model.node)
        for scaled in context.trace(made.operands[0], _keeps_places).passed if _casts_to_integers(made) else ():
            for operand in _magnified(context, scaled):
                if context.precisions.of(operand.node).may_be_half:
                    context.safety.keep_float32(operand.node)


def _keeps_places(row: Operation) -> bool:
    return computes_linearly(row) or passes_on(row)


def _magnified(context: Context, made: Made) -> Iterator[Place]:
    """X of `X * 4999` and `n * X`, where it is not known that the number is small."""
    pairs = (made.operands, made.operands[::-1]) if made.is_a("product of numbers") and len(made.operands) == 2 else ()
    for other, factor in pairs:
        is_known = bool(numbers(context.facts, factor.node))
        is_number = context.precisions.of(factor.node) is Precision.NUMBER
        if magnifies(context.facts, factor.node) or (is_number and not is_known):
            yield other


def _counted(context: Context, made: Made) -> Iterator[Made]:
    """The ranges of `torch.arange(n)[None].to(X)` and `torch.arange(n, dtype=X.dtype)`."""
    values = (Place(made.node),) if made.is_a("range") else made.operands[:1]  # none of `torch.rand(*shape)`
    ends = (end for one in values for end in context.trace(one, moves, lambda made: made.is_a("range")).ends)
    return (end for end in ends if end.is_a("range"))


def _counts_far(context: Context, made: Made) -> bool:
    """True for a range that may reach a whole number which half does not have."""
    bounds = made.node.args[:2] if isinstance(made.node, cst.Call) else ()
    meant = [numbers(context.facts, one.value) for one in bounds if one.keyword is None or one.keyword.value in _BOUNDS]
    return not all(meant) or any(abs(one) > _WHOLE for ones in meant for one in ones)


def _typed_after(context: Context, made: Made) -> Iterator[Place]:
    """X of `X.new_tensor(n)`, `n.type_as(X)` and `n.to(X)`."""
    model = context.typed_as(made)
    if model is not None:
        yield model
    elif made.is_a("typed after") and made.cast is None:
        yield made.operands[0]


def _casts_to_integers(made: Made) -> bool:
    is_cast = made.operation is not None and made.operation.kind == "method" and bool(made.operands)
    return is_cast and (made.cast == _INTEGER or made.is_a("cast to integers"))
