"""Ten updates, and the whole curve against a control run.

Small differences grow by themselves: how fast is the script's own affair, and the control (the original, its weights
moved once by a rounding error) measures it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from amp_migrate.verify import thresholds
from amp_migrate.verify.checks.runs import Runs, largest_loss_difference, text_of, weight_difference
from amp_migrate.verify.comparison import Line

_FIRST_UPDATES = 10


def first_updates_lines(runs: Runs) -> Iterator[Line]:
    """The largest difference of a loss in the first ten applied updates, as long as both skip the same steps."""
    apart = runs.parted()
    found = largest_loss_difference(runs.original, runs.migrated, _FIRST_UPDATES, apart)
    if found is not None:
        yield _line("first ten updates", found, _limit_of_losses(runs, _FIRST_UPDATES))
    elif apart is not None:
        yield Line("first ten updates", "not compared", text="only one of the two skipped the first step")
    else:
        yield Line("first ten updates", "different", text="no update of the migrated script has one to compare it with")


def curve_lines(runs: Runs) -> Iterator[Line]:
    """The largest difference of a loss in all applied updates, and the weights that they come to."""
    found = largest_loss_difference(runs.original, runs.migrated)
    if found is None:
        return
    limit = _limit_of_losses(runs, None)
    excuse = _excuse(runs, limit)
    yield _line("loss curve", found, limit, excuse)
    weights = weight_difference(runs.original, runs.migrated)
    if weights is None:
        return
    control = None
    if runs.control is not None and len(runs.control.steps) == len(runs.original.steps):
        control = weight_difference(runs.original, runs.control)
    allowed = max(runs.limit(thresholds.WEIGHTS), thresholds.TIMES_CONTROL_OF_WEIGHTS * (control or 0.0))
    yield _line("weights at the end", weights, allowed, excuse)


def _excuse(runs: Runs, limit: float) -> str:
    """Why a large difference in the long run would prove nothing; empty where it would."""
    if limit > thresholds.TIMES_CONTROL * thresholds.CHAOTIC:
        return "the original is as unstable"
    if len(runs.original.curves()) > 1:
        return "several optimizers answer to each other"
    if runs.parted() is not None:
        return "one of the two skipped a step that the other made"
    return ""


def _limit_of_losses(runs: Runs, updates: int | None) -> float:
    fixed = runs.limit(thresholds.LOSSES[runs.form])
    if runs.control is None:
        return fixed
    control = largest_loss_difference(runs.original, runs.control, updates) or 0.0
    return max(fixed, thresholds.TIMES_CONTROL * control) if math.isfinite(control) else fixed


def _line(check: str, found: float, limit: float, excuse: str = "") -> Line:
    number, threshold = text_of(found), f"<= {text_of(limit)}"
    if found <= limit:
        return Line(check, "ok", number, threshold)
    if excuse:
        return Line(check, "warning", number, threshold, f"{excuse}: this line decides nothing")
    return Line(check, "different", number, threshold, "the two train apart")
