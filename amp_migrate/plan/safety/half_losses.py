"""Losses that are the mean of half values, as those of a critic: the scale itself does not fit into their gradient.

    loss = -critic(fake).mean()        =>    loss = -critic(fake).float().mean()
    for one, other in zip(features, of_real):
        loss += (one - other).abs().mean()        (of features that a critic has put into lists)

The gradient of the mean has the dtype of its result, and 65536 is infinite in half: the first step would be skipped,
and one again whenever the scale has grown back ([run]). Losses of torch are float32 under autocast.
"""

from __future__ import annotations

from collections.abc import Iterable

from amp_migrate.interp.place import Place
from amp_migrate.models import Operation
from amp_migrate.plan.model import Backward
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.passing import computes_linearly


def keep_losses(context: Context, backwards: Iterable[Backward]) -> None:
    """Float32 for what a loss is the mean of, where that is certainly half."""
    for backward in backwards:
        means = context.trace(Place(backward.loss), _is_of_a_loss).made
        for made in reversed(means):  # the mean of a mean is float32 with it
            if context.is_a("mean", made) and context.values.at(made.operands[0]).is_half:
                context.safety.keep_float32(made.operands[0].node)


def _is_of_a_loss(row: Operation) -> bool:
    """Sums and multiples of losses, and means of means."""
    return computes_linearly(row) or row.reduction
