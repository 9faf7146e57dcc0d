"""Structure: what no loss curve shows. Counts and flags, exact; and how much runs in half precision."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.verify import thresholds
from amp_migrate.verify.checks.runs import Runs
from amp_migrate.verify.comparison import Line
from amp_migrate.verify.record import Record


def structure_lines(runs: Runs) -> Iterator[Line]:
    """One line for each count or flag; where neither side has scalers, fewer."""
    original, migrated = runs.original, runs.migrated
    yield _equal_counts("backwards", len(migrated.backwards), len(original.backwards))
    yield _equal_counts("optimizer steps", len(migrated.steps), len(original.steps))
    yield from _scaled_losses(runs)
    yield _autocast_at_backward(migrated)
    if any(scaler.kind == "GradScaler" for scaler in migrated.scalers):
        yield _through_scaler(migrated)
        yield _one_scaler(migrated)
    yield _clips(original, migrated)
    yield from _precision(runs)
    yield from _evaluation(runs)


def _equal_counts(check: str, count: int, expected: int) -> Line:
    if count == expected:
        return Line(check, "ok", str(count), f"= {expected}")
    return Line(check, "different", str(count), f"= {expected}", f"the original makes {expected}")


def _scaled_losses(runs: Runs) -> Iterator[Line]:
    """Every backward that the source scaled is scaled; in a plain source, all that feed a scaled step."""
    original, migrated = runs.original, runs.migrated
    if not migrated.scalers and not original.scalers:
        return
    if migrated.low_dtype == "bfloat16" and not migrated.scalers:
        yield Line("scaled losses", "note", text="bfloat16 needs no loss scale")
        return
    expected = [
        number
        for number, (one, two) in enumerate(zip(original.backwards, migrated.backwards, strict=False), 1)
        if (one.loss_scale is not None if original.scalers else _is_scaled_update(migrated, two.update))
    ]
    missing = [number for number in expected if migrated.backwards[number - 1].loss_scale is None]
    number = f"{len(expected) - len(missing)} of {len(expected)}"
    if missing:
        text = f"backward {missing[0]} got a loss without loss scale: small gradients become 0 in half precision"
        yield Line("scaled losses", "different", number, "all", text)
    else:
        yield Line("scaled losses", "ok", number, "all")


def _is_scaled_update(record: Record, update: int) -> bool:
    """True where the step after a backward goes through a scaler."""
    return any(step.through_scaler for step in record.steps[update : update + 1])


def _autocast_at_backward(migrated: Record) -> Line:
    count = sum(backward.autocast for backward in migrated.backwards)
    text = "backward runs inside of the autocast region: it belongs after it" if count else ""
    return Line("backwards under autocast", "different" if count else "ok", str(count), "= 0", text)


def _through_scaler(migrated: Record) -> Line:
    """The steps that apply gradients of a scaled loss."""
    fed = [
        step
        for update in migrated.updates()
        if any(_is_native(migrated, backward.scaler) for backward in update.backwards)
        for step in update.steps
    ]
    bare = [step for step in fed if not step.through_scaler]
    number = f"{len(fed) - len(bare)} of {len(fed)}"
    if not bare:
        return Line("steps through the scaler", "ok", number, "all")
    text = f"optimizer {bare[0].optimizer + 1} steps on scaled gradients by itself: use scaler.step(optimizer)"
    return Line("steps through the scaler", "different", number, "all", text)


def _is_native(record: Record, scaler: int | None) -> bool:
    return scaler is not None and record.scalers[scaler].kind == "GradScaler"


def _one_scaler(migrated: Record) -> Line:
    by_optimizer: dict[int, set[int]] = {}
    for step in migrated.steps:
        if step.scaler is not None:
            by_optimizer.setdefault(step.optimizer, set()).add(step.scaler)
    most = max((len(scalers) for scalers in by_optimizer.values()), default=0)
    text = "the scaler is made again and again, and forgets its loss scale: make it once, before the loop"
    return Line("scalers for one optimizer", "ok" if most <= 1 else "different", str(most), "<= 1", text * (most > 1))


def _clips(original: Record, migrated: Record) -> Line:
    return _equal_counts("clipped gradients", len(migrated.clips), len(original.clips))


def _precision(runs: Runs) -> Iterator[Line]:
    """A forward without autocast trains well, slowly: only the precision of what is saved for backward shows it."""
    share = runs.migrated.low_share
    if share is None:
        return
    if not runs.is_mixed and not runs.migrated.scalers and not share:
        text = "mixed precision is off on both sides: give the script its own flag to compare it"
        yield Line("half precision in training", "warning", "0.00", text=text)
        return
    known = [
        record.low_share
        for record in (runs.autocast, runs.original if runs.is_mixed else None)
        if record is not None and record.low_share is not None
    ]
    expected = min(known) if known else thresholds.USUAL_PRECISION_SHARE
    yield _share("half precision in training", share, expected, "forward or loss lie outside of an autocast region")


def _evaluation(runs: Runs) -> Iterator[Line]:
    """Apex patched torch for everything, evaluation included; a plain original evaluates in float32 anyway."""
    expected, share = runs.original.evaluation.share, runs.migrated.evaluation.share
    if not runs.original.levels or not expected or share is None:
        return
    text = "evaluation runs in float32, where Apex had it in half precision"
    yield _share("half precision in evaluation", share, expected, text)


def _share(check: str, share: float, expected: float, text: str) -> Line:
    least, usual = thresholds.LEAST_OF_PRECISION * expected, thresholds.USUAL_OF_PRECISION * expected
    if share >= usual:
        return Line(check, "ok", f"{share:.2f}", f">= {usual:.2f}")
    if share >= least:
        return Line(check, "warning", f"{share:.2f}", f">= {usual:.2f}", "a part of it runs in float32 now")
    return Line(check, "different", f"{share:.2f}", f">= {least:.2f}", text)
