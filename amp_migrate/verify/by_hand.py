"""Loss scales that a script applies by itself: `(loss * 512).backward()`, and `p.grad.div_(512)` before the step.

They are taken out of what was recorded of the original, so that the losses of both sides mean the same. That the
gradients are divided by the same number is not assumed: their norm, as applied, is compared as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from amp_migrate.verify.record import Backward, Clip, Record, Scaler, Step

LEAST_SCALE = 2.0


def constants_of(*migrated: Record) -> list[float]:
    """What each loss of the migrated script is multiplied with, by the run of it that got furthest."""
    furthest = max(migrated, key=lambda record: len(record.backwards))
    return [backward.factor for backward in furthest.backwards]


def without_scales(record: Record, constants: list[float]) -> Record:
    """The losses of any run of the original without what multiplies them there, and not in the migrated script.

    That becomes the scale of a loss scaler. A smaller factor than `LEAST_SCALE` is none: a division by a number of
    micro-batches that one side lacks, a weight that was computed with another rounding.
    """
    number = len(record.scalers)
    backwards = [
        _unscaled(backward, backward.factor / constant, number)
        if backward.factor >= LEAST_SCALE * constant > 0
        else backward
        for backward, constant in zip(record.backwards, constants, strict=False)
    ]
    used = [one.loss_scale for one in backwards if one.scaler == number and one.loss_scale is not None]
    if not used:
        return record
    scalers = [*record.scalers, Scaler("by hand", used[0], used[-1])]
    return dataclasses.replace(record, backwards=backwards + record.backwards[len(backwards) :], scalers=scalers)


def scale_by_hand(record: Record) -> Scaler | None:
    """The one that was taken out; None where there was none."""
    return next((scaler for scaler in record.scalers if scaler.kind == "by hand"), None)


def _unscaled(backward: Backward, scale: float, scaler: int) -> Backward:
    return dataclasses.replace(
        backward, loss=backward.loss / scale, factor=backward.factor / scale, loss_scale=scale, scaler=scaler
    )


def with_skipped_steps(record: Record, plain: Record) -> Record:
    """A loop that scales by hand leaves its steps out where gradients overflow: they become skipped steps.

    `plain` is its run without AMP, where nothing overflows: it tells after which backwards the steps belong.
    """
    expected = list(_steps_after_backwards(plain))
    found = list(_steps_after_backwards(record))
    if len(expected) != len(found):
        return record
    backwards: list[Backward] = []
    steps: list[Step] = []
    places: list[int] = []  # of each old step in the new ones
    for backward, own, usual in zip(record.backwards, found, expected, strict=True):
        backwards.append(dataclasses.replace(backward, update=len(steps)))
        places += range(len(steps), len(steps) + len(own))
        steps += own or [_skipped(step) for step in usual]
    places.append(len(steps))
    clips = [_moved(clip, places) for clip in record.clips]
    return dataclasses.replace(record, backwards=backwards, steps=steps, clips=clips)


def _steps_after_backwards(record: Record) -> Iterator[list[Step]]:
    starts = [backward.update for backward in record.backwards]
    for start, end in zip(starts, [*starts[1:], len(record.steps)], strict=True):
        yield record.steps[start:end]


def _skipped(step: Step) -> Step:
    return dataclasses.replace(step, applied=False, grad_norm=None)


def _moved(clip: Clip, places: list[int]) -> Clip:
    return dataclasses.replace(clip, update=places[min(clip.update, len(places) - 1)])
