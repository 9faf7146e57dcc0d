"""The first step: same weights, same data, so only rounding may differ."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.verify import thresholds
from amp_migrate.verify.checks.runs import Runs, difference, is_about, pairs, text_of
from amp_migrate.verify.comparison import Line
from amp_migrate.verify.record import Backward, Record, Update


def first_step_lines(runs: Runs) -> Iterator[Line]:
    """The first loss, and the first gradient norms: before clipping, and (what follows from them) as applied."""
    yield from _first_loss(runs)
    noise = min(thresholds.TIMES_NOISE * runs.noise_of_gradient(), thresholds.LARGEST_LIMIT)
    limit = max(thresholds.FIRST_GRADIENT, noise)
    for optimizers, originals, migrated in pairs(runs.original, runs.migrated):
        if _until_first(runs.original, optimizers) != _until_first(runs.migrated, optimizers):
            continue
        name = f" of optimizer {optimizers[0] + 1}" if len(runs.original.curves()) > 1 else ""
        for one, two in zip(originals[0].excesses, migrated[0].excesses, strict=False):
            yield _gradient(f"first norm before clipping, by its limit{name}", one, two, migrated[0], limit)
        yield _gradient(f"first gradient norm{name}", originals[0].grad_norm, migrated[0].grad_norm, migrated[0], limit)


def _first_loss(runs: Runs) -> Iterator[Line]:
    if not runs.original.backwards or not runs.migrated.backwards:
        return
    limit = runs.limit(thresholds.FIRST_LOSS[runs.form])
    one, backward = runs.original.backwards[0].loss, runs.migrated.backwards[0]
    found = difference(backward.loss, one)
    text = "" if found <= limit else f"{backward.loss:.6g} instead of {one:.6g}: {_cause_of_loss(one, backward)}"
    yield Line("first loss", "ok" if found <= limit else "different", text_of(found), f"<= {text_of(limit)}", text)


def _cause_of_loss(one: float, backward: Backward) -> str:
    if backward.loss_scale is not None and is_about(backward.loss, one * backward.loss_scale):
        return "the loss was scaled twice"
    return "the loss is not computed as it was"


def _until_first(record: Record, optimizers: tuple[int, ...]) -> list[bool]:
    """Which updates were applied, up to the first of some optimizers: after a skip on one side only, data and weights
    differ.
    """
    applied: list[bool] = []
    for update in record.updates():
        applied.append(update.applied)
        if update.applied and update.optimizers == optimizers:
            break
    return applied


def _gradient(check: str, one: float, two: float, update: Update, limit: float) -> Line:
    found = difference(two, one)
    text = "" if found <= limit else f"{two:.4g} instead of {one:.4g}: {_cause(check, one, two, update)}"
    return Line(check, "ok" if found <= limit else "different", text_of(found), f"<= {text_of(limit)}", text)


def _cause(check: str, one: float, two: float, update: Update) -> str:
    scale = next((backward.loss_scale for backward in update.backwards if backward.loss_scale is not None), None)
    if scale is not None and is_about(two, one * scale):
        if "clip" in check:
            return "the gradients were still scaled: scaler.unscale_(optimizer) belongs before the clip"
        return "the gradients were still scaled when they were applied"
    if scale is not None and is_about(two * scale, one):
        return "the gradients were divided by the loss scale twice, or not at all in the original"
    return "the gradients are not those of the original"
