"""Positions that pass through the dtype of a half tensor: above 2048 half has no odd numbers, above 65504 none at all.

    frame = signal.new_tensor(frame).long()    =>    frame = signal.float().new_tensor(frame).long()

The new tensor is wanted for its device; its dtype is the signal's by accident, and the cast to integers shows that the
numbers have to be exact.
"""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.models import Dtype
from amp_migrate.plan.safety.context import Context

_INTEGER = frozenset((Dtype.INTEGER,))


def keep_positions(context: Context) -> None:
    """Float32 for the tensors after which numbers are typed that become integers at once."""
    for made in context.results:
        for typed in context.steps.of(made.operands[0]).made if _casts_to_integers(made) else ():
            for model in _typed_after(context, typed):
                value = context.values.of(model.node)
                if value.is_tensor and value.may_be_half:
                    context.safety.keep_float32(model.node)


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
