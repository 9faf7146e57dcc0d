"""Overflow: NaN, skipped steps, and where the loss scale ends.

These are symptoms. What causes them is named better by the structure and the first step, which decide before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from amp_migrate.verify import thresholds
from amp_migrate.verify.checks.runs import Runs
from amp_migrate.verify.comparison import Line


def overflow_lines(runs: Runs) -> Iterator[Line]:
    """One line each; of the loss scale only where there is one."""
    yield _finite(runs)
    yield from _skipped(runs)
    yield from _end_of_scale(runs)


def _finite(runs: Runs) -> Line:
    check = "finite losses and gradients"
    number = runs.migrated.not_a_number()
    if number is None:
        return Line(check, "ok", "all", "all")
    if runs.original.not_a_number() is not None:
        return Line(check, "not compared", text="the original becomes NaN, too")
    return Line(check, "different", text=f"the migrated script becomes NaN at update {number}, the original does not")


def _skipped(runs: Runs) -> Iterator[Line]:
    original, migrated = runs.original, runs.migrated
    if not original.scalers and not migrated.scalers:
        return
    apart = abs(original.skipped - migrated.skipped)
    allowed = max(thresholds.SKIPPED_STEPS, thresholds.SKIPPED_SHARE * max(original.skipped, migrated.skipped))
    number, threshold = str(migrated.skipped), f"original: {original.skipped}"
    if apart == 0:
        yield Line("skipped steps", "ok", number, threshold)
    elif migrated.skipped - original.skipped > thresholds.MOST_SKIPPED * len(migrated.steps):
        text = f"{migrated.skipped} of {len(migrated.steps)} steps of the migrated script overflow"
        yield Line("skipped steps", "different", number, threshold, text)
    elif runs.scales_alike and apart > allowed:
        yield Line("skipped steps", "different", number, threshold, "the loss scale does not move as it did")
    else:
        yield Line("skipped steps", "note", number, threshold)


def _end_of_scale(runs: Runs) -> Iterator[Line]:
    original, migrated = runs.original.scalers, runs.migrated.scalers
    if not original or not migrated:
        return
    ends = [min(scaler.last_scale for scaler in scalers) for scalers in (original, migrated)]
    number, threshold = f"{ends[1]:g}", f"original: {ends[0]:g}"
    ratio = max(ends) / min(ends) if min(ends) > 0 else math.inf
    if ratio == 1:
        yield Line("loss scale at the end", "ok", number, threshold)
    elif ratio <= thresholds.END_OF_SCALE or not runs.scales_alike:
        yield Line("loss scale at the end", "note", number, threshold)
    else:
        yield Line("loss scale at the end", "different", number, threshold, "the loss scale does not move as it did")
