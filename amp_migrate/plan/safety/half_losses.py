"""Losses that are the mean of half values, as those of a critic: the scale itself does not fit into their gradient.

    loss = -critic(fake).mean()        =>    loss = -critic(fake).float().mean()
    for one, other in zip(features, of_real):
        loss += (one - other).abs().mean()        (of features that a critic has put into lists)

The gradient of the mean has the dtype of its result, and 65536 is infinite in half: the first step would be skipped,
and one again whenever the scale has grown back ([run]). Losses of torch are float32 under autocast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amp_migrate.interp.place import Place
from amp_migrate.plan.model import Backward
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.passing import computes_linearly


def keep_losses(context: Context, backwards: Iterable[Backward]) -> None:
    """Float32 for what a loss is the mean of: what is half, or comes from a container of layers out of sight."""
    for backward in backwards:
        for averaged in _averaged(context, Place(backward.loss)):
            value = context.values.at(averaged)
            # What a model out of sight returns is mostly a loss.
            if value.is_half or (value.may_be_half and context.values.may_leave_autocast(averaged, unseen=False)):
                context.safety.keep_float32(averaged.node)


def _averaged(context: Context, loss: Place) -> Iterator[Place]:
    """X of the `X.mean()` that a loss is, or is a sum or a multiple of; of the mean of a mean what that averages."""
    for made in context.trace(loss, computes_linearly).ends:
        if made.is_a("mean"):
            operand = made.operands[0]
            yield from _averaged(context, operand) if context.values.at(operand).is_zero_dim else (operand,)
