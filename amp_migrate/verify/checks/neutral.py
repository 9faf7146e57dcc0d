"""Neutralised: without AMP, the migrated script is the original, to the last bit.

This needs no threshold and no Apex. It catches whatever was lost or merged wrongly on the way. Where an operation
stands in place of an equal one (BCE with logits, AdamW for FusedAdam), bits differ. Then both are run in float64:
rounding shrinks with the precision, a mistake does not.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

from amp_migrate.verify import thresholds
from amp_migrate.verify.checks.runs import Runs, difference, distance, is_about, median
from amp_migrate.verify.comparison import Line
from amp_migrate.verify.record import Record, Step, Update

_CHECK = "bit-identical"
_SAME = "the same bits"
_FIRST_UPDATES = 10  # rounding errors grow


@dataclasses.dataclass(frozen=True)
class _Parting:
    """Where two runs part, in words, and by how much: relative, infinite where it is no question of numbers."""

    text: str
    size: float = math.inf

    @property
    def is_rounding(self) -> bool:
        return self.size <= thresholds.ROUNDING


@dataclasses.dataclass(frozen=True)
class _Limits:
    """How far each update may part, and what comes after those. Losses and norms near 0 are measured by a part of the
    usual ones.
    """

    of_updates: Sequence[float] = ()
    then: float = 0.0
    least_loss: float = 0.0
    least_norm: float = 0.0

    @classmethod
    def of_usual(cls, record: Record, of_updates: Sequence[float], then: float) -> _Limits:
        updates = list(record.updates())
        loss, norm = median([abs(one.loss) for one in updates]), median([one.grad_norm for one in updates])
        return cls(of_updates, then, thresholds.LEAST_OF_USUAL * loss, thresholds.LEAST_OF_USUAL * norm)

    def of(self, number: int) -> float:
        """Of an update, counted from 1."""
        return self.of_updates[number - 1] if number <= len(self.of_updates) else self.then


_BITS = _Limits()


def neutral_lines(runs: Runs) -> Iterator[Line]:
    """One line: the same bits, or the first place where they part and what that means."""
    original, migrated = runs.original_plain, runs.migrated_plain
    if original is None or migrated is None:
        yield Line(_CHECK, "not compared", text="there is no run without AMP")
        return
    if original.failure is not None and migrated.failure is None:
        yield Line(_CHECK, "warning", text="the original does not run without AMP, so this proof is missing")
        return
    if migrated.failure is not None and original.failure is None:
        text = f"without AMP the migrated script {migrated.failure.words()}"
        if "Half" in migrated.failure.message:
            text += ": a cast to half precision was left in it"
        yield Line(_CHECK, "different", text=text)
        return
    number = f"{len(migrated.backwards)} losses, {len(migrated.steps)} steps"
    parting = _first_parting(original, migrated)
    if parting is None:
        yield Line(_CHECK, "ok", number, _SAME)
        return
    if runs.is_in_float64 and _parting_in_float64(runs) is None:
        yield Line(_CHECK, "ok", number, _SAME, "up to rounding: in float64, a billion times finer, both are the same")
        return
    why = None if runs.is_in_float64 else _why_only_rounding(runs, original, migrated)
    if why is not None:
        yield Line(_CHECK, "warning", number, _SAME, why)
        return
    text = f"without AMP, {parting.text}"
    if parting.is_rounding and (real := _parting_in_float64(runs)) is not None:
        text = f"without AMP, {real.text} (in float64, where next to nothing is rounded)"
    elif parting.is_rounding:
        text += " (a rounding error: another operation in place of one that means the same?)"
    yield Line(_CHECK, "different", number, _SAME, text)


def _why_only_rounding(runs: Runs, original: Record, migrated: Record) -> str | None:
    """In words, what shows without float64 that nothing but rounding differs; None where something else may."""
    limits = _Limits.of_usual(original, [thresholds.ROUNDING_UNPROVEN] * _FIRST_UPDATES, math.inf)
    if _first_parting(original, migrated, limits) is None:
        return "equal up to rounding in ten updates; in float64, which would prove it, they do not run"
    parting, again = _first_parting(original, migrated), runs.original_plain_again
    own = _first_parting(original, again) if again is not None else None
    if own is not None and parting is not None and own.is_rounding and parting.is_rounding:
        return "the original, run twice, has not the same bits either; up to rounding they are equal"
    return None


def _parting_in_float64(runs: Runs) -> _Parting | None:
    """Where both part in float64 by more than rounding; None also where they do not run in it."""
    one, two = runs.original_float64, runs.migrated_float64
    if one is None or two is None:
        return None
    limits = list(_limits_in_float64(runs, one, two))
    return _first_parting(one, two, _Limits.of_usual(one, limits, limits[-1] if limits else thresholds.FLOAT64))


def _limits_in_float64(runs: Runs, one: Record, two: Record) -> Iterator[float]:
    """What rounding may make of each update in float64: next to nothing, or a small part of what it makes of it in
    float32, where a script is unstable. Where that is chaos, it grows in float64 as well, but never at once.
    """
    assert runs.original_plain is not None and runs.migrated_plain is not None
    before = 0.0
    in_float32 = _largest_so_far(runs.original_plain, runs.migrated_plain)
    for coarse, fine in zip(in_float32, _largest_so_far(one, two), strict=False):
        limit = max(thresholds.FLOAT64, thresholds.FLOAT64_OF_FLOAT32 * coarse)
        yield max(limit, thresholds.GROWTH * before) if coarse > thresholds.CHAOTIC else limit
        before = fine


def _largest_so_far(one: Record, two: Record) -> Iterator[float]:
    """By how much two runs have parted, after each update."""
    pairs = zip(one.updates(), two.updates(), strict=False)
    apart = (max(difference(b.loss, a.loss), difference(b.grad_norm, a.grad_norm)) for a, b in pairs)
    return itertools.accumulate(apart, max)


def why_not_repeatable(runs: Runs) -> str | None:
    """In words, where the original differs from itself by more than rounding; None where it was not asked."""
    if runs.original_plain is None or runs.original_plain_again is None:
        return None
    own = _first_parting(runs.original_plain, runs.original_plain_again)
    if own is None or own.is_rounding:
        return None
    return f"the original is not repeatable (seed it from a constant): run twice, {own.text}"


def same_bits(original: Record, other: Record) -> bool:
    """True where nothing that was recorded differs."""
    return _first_parting(original, other) is None


def may_be_rounding(original: Record, other: Record) -> bool:
    """True where two runs part by little enough to ask float64 what it is."""
    parting = _first_parting(original, other)
    return parting is not None and parting.size <= thresholds.PERHAPS_ROUNDING


def _first_parting(original: Record, other: Record, limits: _Limits = _BITS) -> _Parting | None:
    """None where they are equal in every bit, or as near as some limits."""
    number = 0
    for number, (one, two) in enumerate(zip(original.updates(), other.updates(), strict=False), 1):
        parting = _parting_in(number, one, two, limits)
        if parting is not None:
            return parting
    if len(original.backwards) != len(other.backwards):
        return _Parting(f"there are {len(other.backwards)} backwards instead of {len(original.backwards)}")
    if len(original.steps) != len(other.steps):
        return _Parting(f"there are {len(other.steps)} optimizer steps instead of {len(original.steps)}")
    if original.outcome == other.outcome == "finished":
        return _parting_at_the_end(original, other, limits.of(max(number, 1)))
    return None


def _parting_at_the_end(original: Record, other: Record, limit: float) -> _Parting | None:
    """In the weights and the buffers: by all of their bits, or by a limit for what was kept of them."""
    unseen = 0.0 if limit else thresholds.ROUNDING
    if original.digest != other.digest:
        size = distance(original.weights, other.weights) or unseen
        if size > limit:
            return _Parting("the weights at the end differ", size)
    if original.buffers != other.buffers:
        size = distance(original.running, other.running) or unseen
        if size > limit:
            text = "the buffers at the end differ (running statistics: eval() lost, or another forward?)"
            return _Parting(text, size)
    return None


def _parting_in(number: int, one: Update, two: Update, limits: _Limits) -> _Parting | None:
    if len(one.backwards) != len(two.backwards):
        return _Parting(
            f"update {number} has {len(two.backwards)} backward(s) instead of {len(one.backwards)}: "
            "a step moved in or out of its condition, or a backward was lost"
        )
    if [step.optimizer for step in one.steps] != [step.optimizer for step in two.steps]:
        return _Parting(f"update {number} steps {_steps(two.steps)} instead of {_steps(one.steps)}")
    limit = limits.of(number)
    found = difference(two.loss, one.loss, limits.least_loss)
    if found > limit:
        text = f"the loss of update {number} is {two.loss:.9g} instead of {one.loss:.9g}: {_why_loss(number)}"
        return _Parting(text, found)
    if [clip.name for clip in one.clips] != [clip.name for clip in two.clips]:
        return _Parting(f"update {number} clips {len(two.clips)} time(s) instead of {len(one.clips)}")
    for norm, other in zip(one.excesses, two.excesses, strict=False):
        found = difference(other, norm, limits.least_norm)
        if found > max(limit, thresholds.ROUNDING):  # a sum over the same gradients, in any order
            text = (
                f"the norm before clipping of update {number}, by its limit, is {other:.9g} instead of {norm:.9g}: "
                f"{_why_gradient(number, one, two, norm, other)}"
            )
            return _Parting(text, found)
    found = difference(two.grad_norm, one.grad_norm, limits.least_norm)
    if found > limit:
        text = (
            f"the gradient norm of update {number} is {two.grad_norm:.9g} instead of {one.grad_norm:.9g} "
            f"at equal losses: {_why_gradient(number, one, two, one.grad_norm, two.grad_norm)}"
        )
        return _Parting(text, found)
    return None


def _steps(steps: list[Step]) -> str:
    return " and ".join(f"optimizer {step.optimizer + 1}" for step in steps) or "nothing"


def _why_loss(number: int) -> str:
    if number == 1:
        return "another forward, another loss or other data"
    return "the updates before it were not the same"


def _why_gradient(number: int, one: Update, two: Update, norm: float, other: float) -> str:
    """Why `other` is not `norm`. Of what is recorded without AMP, only a loss scale by hand is one."""
    scale, factor = one.backwards[0].loss_scale, two.backwards[0].factor
    if scale is not None and is_about(other * scale, norm):
        return f"the loss is not multiplied by {scale:g} any more, but the gradients are still divided by it"
    if factor > 1.0 and is_about(other, norm * factor):
        return f"the loss is still multiplied by {factor:g}, but the gradients are not divided by it any more"
    if number == 1:
        return "the gradients were changed between backward and step (a clip, a division, a second backward)"
    return "gradients of an earlier update are still there (a lost zero_grad), or were changed before the step"
