"""Structure: what no loss curve shows. Counts and flags, exact."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.verify.checks.runs import Runs
from amp_migrate.verify.comparison import Line
from amp_migrate.verify.form import is_native
from amp_migrate.verify.record import Record

_UNDERFLOW = "small gradients become 0 in half precision"


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
    yield from _half_weights(runs)
    yield _clips(original, migrated)


def _equal_counts(check: str, count: int, expected: int) -> Line:
    if count == expected:
        return Line(check, "ok", str(count), f"= {expected}")
    return Line(check, "different", str(count), f"= {expected}", f"the original makes {expected}")


def _scaled_losses(runs: Runs) -> Iterator[Line]:
    """Every backward that the source scaled is scaled; of a plain source, if any is, every one before a step of which
    something ran in half precision: an attack on the inputs stays in float32.
    """
    original, migrated = runs.original, runs.migrated
    if not migrated.scalers and not original.scalers:
        yield from _no_scaler(runs)
        return
    if migrated.low_dtype == "bfloat16" and not migrated.scalers:
        yield Line("scaled losses", "note", text="bfloat16 needs no loss scale")
        return
    expected = [
        number
        for number, (one, two) in enumerate(zip(original.backwards, migrated.backwards, strict=False), 1)
        if (one.loss_scale is not None if original.scalers else two.update < len(migrated.steps) and not two.is_apart)
    ]
    missing = [number for number in expected if migrated.backwards[number - 1].loss_scale is None]
    number = f"{len(expected) - len(missing)} of {len(expected)}"
    if missing:
        text = f"backward {missing[0]} got a loss without loss scale, others have one: {_UNDERFLOW}"
        yield Line("scaled losses", "different", number, "all", text)
    else:
        yield Line("scaled losses", "ok", number, "all")


def _no_scaler(runs: Runs) -> Iterator[Line]:
    """Right for a static scale of 1, which Apex's own interfaces have, and for bfloat16."""
    needs_one = not runs.is_mixed or (runs.form == "half by hand" and is_native(runs.migrated))
    if runs.migrated.low_dtype == "float16" and needs_one:
        yield Line("scaled losses", "different", "0", "all", f"float16 without a loss scale: {_UNDERFLOW}")


def _autocast_at_backward(migrated: Record) -> Line:
    count = sum(backward.autocast for backward in migrated.backwards)
    text = "backward runs inside of the autocast region: it belongs after it" if count else ""
    return Line("backwards under autocast", "different" if count else "ok", str(count), "= 0", text)


def _through_scaler(migrated: Record) -> Line:
    """The steps that apply gradients of a scaled loss."""
    fed = [
        (step, {backward.scaler for backward in update.backwards})
        for update in migrated.updates()
        if any(migrated.is_native(backward.scaler) for backward in update.backwards)
        for step in update.steps
    ]
    wrong = [step for step, scalers in fed if step.scaler not in scalers]
    number = f"{len(fed) - len(wrong)} of {len(fed)}"
    if not wrong:
        return Line("steps through the scaler", "ok", number, "all")
    name = f"optimizer {wrong[0].optimizer + 1}"
    if wrong[0].scaler is not None:
        text = f"{name} is stepped by another scaler than the one that scaled its loss"
    else:
        text = f"{name} steps on scaled gradients by itself: use scaler.step(optimizer)"
    return Line("steps through the scaler", "different", number, "all", text)


def _one_scaler(migrated: Record) -> Line:
    by_optimizer: dict[int, set[int]] = {}
    for step in migrated.steps:
        if step.scaler is not None:
            by_optimizer.setdefault(step.optimizer, set()).add(step.scaler)
    most = max((len(scalers) for scalers in by_optimizer.values()), default=0)
    text = "the scaler is made again and again, and forgets its loss scale: make it once, before the loop"
    return Line("scalers for one optimizer", "ok" if most <= 1 else "different", str(most), "<= 1", text * (most > 1))


def _half_weights(runs: Runs) -> Iterator[Line]:
    if runs.migrated.half_weights and is_native(runs.migrated) and runs.form != "native":
        text = "weights are trained in half precision, and no GradScaler helps that: a .half() was left"
        yield Line("weights in half precision", "different", "some", "none", text)


def _clips(original: Record, migrated: Record) -> Line:
    """In the updates that both apply: after an overflow FP16_Optimizer does not clip, others do."""
    both = [
        (len(one.clips), len(two.clips))
        for one, two in zip(original.updates(), migrated.updates(), strict=False)
        if one.applied and two.applied
    ]
    return _equal_counts("clipped gradients", sum(count for _, count in both), sum(count for count, _ in both))
