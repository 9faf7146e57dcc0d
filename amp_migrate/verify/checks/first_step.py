"""The first step: same weights, same data, so only rounding may differ."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.verify import thresholds
from amp_migrate.verify.checks.runs import Runs, difference, pairs, text_of
from amp_migrate.verify.comparison import Line
from amp_migrate.verify.record import Update


def first_step_lines(runs: Runs) -> Iterator[Line]:
    """The first loss, and the first gradient norms as applied and before clipping."""
    yield from _first_loss(runs)
    for optimizers, originals, migrated in pairs(runs.original, runs.migrated):
        name = f" of optimizer {optimizers[0] + 1}" if len(runs.original.curves()) > 1 else ""
        if _applied_first(runs):
            yield _gradient(f"first gradient norm{name}", originals[0].grad_norm, migrated[0].grad_norm, migrated[0])
        for one, two in zip(originals[0].excesses, migrated[0].excesses, strict=False):
            yield _gradient(f"first norm before clipping, by its limit{name}", one, two, migrated[0])


def _first_loss(runs: Runs) -> Iterator[Line]:
    if not runs.original.backwards or not runs.migrated.backwards:
        return
    limit = runs.limit(thresholds.FIRST_LOSS_OF_HALF, thresholds.FIRST_LOSS)
    one, two = runs.original.backwards[0].loss, runs.migrated.backwards[0].loss
    found = difference(two, one)
    text = "" if found <= limit else f"{two:.6g} instead of {one:.6g}: the loss is not computed as it was"
    yield Line("first loss", "ok" if found <= limit else "different", text_of(found), f"<= {text_of(limit)}", text)


def _applied_first(runs: Runs) -> bool:
    """True where both applied the same update first: after a skip on one side the data differ."""
    firsts = [
        next((number for number, update in enumerate(record.updates()) if update.applied), None)
        for record in (runs.original, runs.migrated)
    ]
    return firsts[0] == firsts[1]


def _gradient(check: str, one: float, two: float, update: Update) -> Line:
    found = difference(two, one)
    limit = thresholds.FIRST_GRADIENT
    text = "" if found <= limit else f"{two:.4g} instead of {one:.4g}: {_cause(check, one, two, update)}"
    return Line(check, "ok" if found <= limit else "different", text_of(found), f"<= {text_of(limit)}", text)


def _cause(check: str, one: float, two: float, update: Update) -> str:
    scales = [backward.loss_scale for backward in update.backwards if backward.loss_scale is not None]
    ratio = two / one if one else 0.0
    if scales and abs(ratio / scales[0] - 1) < 0.1:
        if "clip" in check:
            return "the gradients were still scaled: scaler.unscale_(optimizer) belongs before the clip"
        return "the gradients were still scaled when they were applied"
    if scales and abs(ratio * scales[0] - 1) < 0.1:
        return "the gradients were divided by the loss scale twice"
    return "the gradients are not those of the original"
