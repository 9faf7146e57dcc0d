"""Ten updates, and the whole curve against a control run.

Small differences grow by themselves: how fast is the script's own affair, and the control (the original, its weights
moved once by a rounding error) measures it.
"""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.verify import thresholds
from amp_migrate.verify.checks.runs import Runs, largest_loss_difference, text_of, weight_difference
from amp_migrate.verify.comparison import Line

_FIRST_UPDATES = 10


def first_updates_lines(runs: Runs) -> Iterator[Line]:
    """The largest difference of a loss in the first ten applied updates."""
    found = largest_loss_difference(runs.original, runs.migrated, _FIRST_UPDATES)
    if found is None:
        yield Line("first ten updates", "different", text="no update of the migrated script has one to compare it with")
        return
    fixed = runs.limit(thresholds.TEN_UPDATES_OF_HALF, thresholds.TEN_UPDATES)
    limit = max(fixed, _control(runs, _FIRST_UPDATES))
    yield _line("first ten updates", found, limit, chaotic=False)


def curve_lines(runs: Runs) -> Iterator[Line]:
    """The largest difference of a loss in all applied updates, and the weights that they come to."""
    found = largest_loss_difference(runs.original, runs.migrated)
    if found is None:
        return
    limit = max(runs.limit(thresholds.TEN_UPDATES_OF_HALF, thresholds.CURVE), _control(runs, None))
    chaotic = limit > thresholds.TIMES_CONTROL * thresholds.CHAOTIC or len(runs.original.curves()) > 1
    yield _line("loss curve", found, limit, chaotic=chaotic)
    weights = weight_difference(runs.original, runs.migrated)
    if weights is None:
        return
    control = None
    if runs.control is not None and len(runs.control.steps) == len(runs.original.steps):
        control = weight_difference(runs.original, runs.control)
    allowed = max(
        runs.limit(thresholds.WEIGHTS, thresholds.WEIGHTS), thresholds.TIMES_CONTROL_OF_WEIGHTS * (control or 0.0)
    )
    yield _line("weights at the end", weights, allowed, chaotic=chaotic)


def _control(runs: Runs, updates: int | None) -> float:
    if runs.control is None:
        return 0.0
    return thresholds.TIMES_CONTROL * (largest_loss_difference(runs.original, runs.control, updates) or 0.0)


def _line(check: str, found: float, limit: float, *, chaotic: bool) -> Line:
    number, threshold = text_of(found), f"<= {text_of(limit)}"
    if found <= limit:
        return Line(check, "ok", number, threshold)
    if chaotic:
        return Line(check, "warning", number, threshold, "the original is as unstable: this line decides nothing")
    return Line(check, "different", number, threshold, "the two train apart")
