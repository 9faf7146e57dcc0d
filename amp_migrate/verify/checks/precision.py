"""How much runs in half precision: a forward without autocast trains well, slowly, and no loss curve shows it."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.verify import thresholds
from amp_migrate.verify.checks.runs import Runs
from amp_migrate.verify.comparison import Line
from amp_migrate.verify.record import Precision, Record, Update

_TRAINING = "half precision in training"
_EVALUATION = "half precision in evaluation"


def precision_lines(runs: Runs) -> Iterator[Line]:
    """In training, of each loss, and in evaluation."""
    if not runs.is_mixed and not runs.migrated.scalers and not runs.migrated.saved_low_bytes:
        text = "mixed precision is off on both sides: give the script its own flag to compare it"
        yield Line(_TRAINING, "warning", "0.00", text=text)
        return
    forgotten = _forgotten(runs)
    if forgotten is not None:
        yield forgotten
    elif runs.is_mixed or not any(one.is_apart for one in runs.migrated.backwards):
        yield _in_training(runs)
    yield from _of_losses(runs)
    yield from _in_evaluation(runs)


def _forgotten(runs: Runs) -> Line | None:
    """Updates whose forward ran in float32, although their loss is scaled (or the script works in bfloat16).

    By the calls of modules, over the whole run: an update without any (a functional model) is not judged here.
    """
    expected = _expected_calls(runs)
    judged, forgotten = 0, []
    for position, update in enumerate(runs.migrated.updates(), 1):
        share = update.precision.share
        if share is None or not (_is_scaled(runs.migrated, update) or runs.migrated.low_dtype == "bfloat16"):
            continue
        judged += 1
        if share < thresholds.LEAST_OF_PRECISION * expected.get(update.optimizers, thresholds.USUAL_PRECISION_SHARE):
            forgotten.append(position)
    if not forgotten:
        return None
    text = f"the forward of update {forgotten[0]} lies outside of an autocast region"
    number = f"float32 in {len(forgotten)} of {judged} updates"
    return Line(_TRAINING, "different", number, "none", text)


def _expected_calls(runs: Runs) -> dict[tuple[int, ...], float]:
    """The share of half precision in the calls of modules, for each set of optimizers, where it is known."""
    known: dict[tuple[int, ...], float] = {}
    for record in _references(runs):
        sums: dict[tuple[int, ...], Precision] = {}
        for update in record.updates():
            total = sums.setdefault(update.optimizers, Precision())
            total.calls += update.precision.calls
            total.low += update.precision.low
        for optimizers, total in sums.items():
            if total.share is not None:
                known[optimizers] = min(known.get(optimizers, 1.0), total.share)
    return known


def _references(runs: Runs) -> Iterator[Record]:
    if runs.autocast is not None:
        yield runs.autocast
    if runs.is_mixed and not runs.casts_weights:  # modules that Apex wraps give float32 to the outside
        yield runs.original


def _is_scaled(record: Record, update: Update) -> bool:
    return any(record.is_native(backward.scaler) for backward in update.backwards)


def _in_training(runs: Runs) -> Line:
    """By what is saved for backward in the first updates; by calls of modules where a checkpoint hides that."""
    shares = [share for share in (runs.migrated.low_share, runs.migrated.training.share) if share is not None]
    share = max(shares, default=0.0)
    known = [
        record.low_share
        for record in (runs.autocast, runs.original if runs.is_mixed else None)
        if record is not None and record.low_share is not None
    ]
    expected = min(known) if known else thresholds.USUAL_PRECISION_SHARE
    if not known and 0 < share < thresholds.LEAST_OF_PRECISION * expected:
        text = "how much of it could be in half is not known: the original does not run under autocast"
        return Line(_TRAINING, "warning", f"{share:.3f}", "> 0", text)
    return _share(_TRAINING, share, expected, "forward or loss lie outside of an autocast region")


def _of_losses(runs: Runs) -> Iterator[Line]:
    """A loss computed outside of its region is rounded to half precision, where autocast had kept float32."""
    reference = runs.original if runs.is_patched else runs.autocast
    if reference is None:
        return
    for number, (one, two) in enumerate(zip(reference.backwards, runs.migrated.backwards, strict=False), 1):
        if two.dtype in ("float16", "bfloat16") and one.dtype == "float32":
            text = f"loss {number} is computed in half precision: it belongs inside of the autocast region"
            yield Line("dtype of the losses", "different", two.dtype, one.dtype, text)
            return
    yield Line("dtype of the losses", "ok", "as under autocast")


def _in_evaluation(runs: Runs) -> Iterator[Line]:
    """Apex's amp covers evaluation, too. Elsewhere float32 is as good: nothing asks for half precision there."""
    expected, share = runs.original.evaluation.share, runs.migrated.evaluation.share
    if runs.form in ("patched by Apex", "cast by Apex") and expected and share is not None:
        yield _share(
            _EVALUATION,
            share,
            expected,
            "forwards without gradients run in float32, where Apex had them in half precision",
        )


def _share(check: str, share: float, expected: float, text: str) -> Line:
    least, usual = thresholds.LEAST_OF_PRECISION * expected, thresholds.USUAL_OF_PRECISION * expected
    if share >= usual:
        return Line(check, "ok", f"{share:.2f}", f">= {usual:.2f}")
    if share >= least:
        return Line(check, "warning", f"{share:.2f}", f">= {usual:.2f}", "a part of it runs in float32 now")
    return Line(check, "different", f"{share:.2f}", f">= {least:.2f}", text)
