"""Neutralised: without AMP, the migrated script is the original, to the last bit.

This needs no threshold and no Apex. It catches whatever was lost or merged wrongly on the way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from amp_migrate.verify import thresholds
from amp_migrate.verify.by_hand import scale_by_hand
from amp_migrate.verify.checks.runs import Runs, difference, is_about
from amp_migrate.verify.comparison import Line
from amp_migrate.verify.record import Record, Step, Update

_CHECK = "bit-identical"
_SAME = "the same bits"
_UPDATES_OF_TOLERANCE = 10  # rounding errors grow


class _Parting(NamedTuple):
    """Where two runs part, in words, and by how much: relative, infinite where it is no question of numbers."""

    text: str
    size: float = math.inf

    @property
    def is_rounding(self) -> bool:
        return self.size <= thresholds.ROUNDING


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
    for why, tolerance in _reasons_to_round(runs, original):
        parting = _first_parting(original, migrated, tolerance)
        if parting is None:
            yield Line(_CHECK, "warning", number, _SAME, f"{why}: equal up to rounding")
            return
    again = runs.original_plain_again
    own = _first_parting(original, again) if again is not None else None
    if own is not None and own.is_rounding and parting.is_rounding:
        text = "the original, run twice, has not the same bits either; up to rounding they are equal"
        yield Line(_CHECK, "warning", number, _SAME, text)
        return
    text = f"without AMP, {parting.text}"
    if parting.is_rounding:
        text += " (a rounding error: another operation in place of one that means the same?)"
    yield Line(_CHECK, "different", number, _SAME, text)


def _reasons_to_round(runs: Runs, original: Record) -> Iterator[tuple[str, float]]:
    """In words, why the migrated script rightly rounds otherwise, and how far that may take it."""
    scaler = scale_by_hand(original)
    if scaler is not None and not _is_power_of_two(scaler.first_scale):
        yield f"the original's own loss scale of {scaler.first_scale:g} is no power of two", thresholds.ROUNDING_GROWN
    if runs.rounding:
        yield "; ".join(runs.rounding), thresholds.ROUNDING_REPLACED


def _is_power_of_two(number: float) -> bool:
    return math.frexp(number)[0] == 0.5


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


def _first_parting(original: Record, other: Record, tolerance: float = 0.0) -> _Parting | None:
    """None where they are equal in every bit; with a `tolerance`, as near as that in the first updates."""
    for number, (one, two) in enumerate(zip(original.updates(), other.updates(), strict=False), 1):
        grown = tolerance > 0.0 and number > _UPDATES_OF_TOLERANCE
        parting = _parting_in(number, one, two, math.inf if grown else tolerance)
        if parting is not None:
            return parting
    if len(original.backwards) != len(other.backwards):
        return _Parting(f"there are {len(other.backwards)} backwards instead of {len(original.backwards)}")
    if len(original.steps) != len(other.steps):
        return _Parting(f"there are {len(other.steps)} optimizer steps instead of {len(original.steps)}")
    if original.outcome == other.outcome == "finished" and not tolerance:
        if original.digest != other.digest:
            return _Parting("the weights at the end differ")
        if original.buffers != other.buffers:
            return _Parting("the buffers at the end differ (running statistics: eval() lost, or another forward?)")
    return None


def _parting_in(number: int, one: Update, two: Update, tolerance: float) -> _Parting | None:
    if len(one.backwards) != len(two.backwards):
        return _Parting(
            f"update {number} has {len(two.backwards)} backward(s) instead of {len(one.backwards)}: "
            "a step moved in or out of its condition, or a backward was lost"
        )
    if [step.optimizer for step in one.steps] != [step.optimizer for step in two.steps]:
        return _Parting(f"update {number} steps {_steps(two.steps)} instead of {_steps(one.steps)}")
    found = difference(two.loss, one.loss)
    if found > tolerance:
        text = f"the loss of update {number} is {two.loss:.9g} instead of {one.loss:.9g}: {_why_loss(number)}"
        return _Parting(text, found)
    if [clip.name for clip in one.clips] != [clip.name for clip in two.clips]:
        return _Parting(f"update {number} clips {len(two.clips)} time(s) instead of {len(one.clips)}")
    for norm, other in zip(one.excesses, two.excesses, strict=False):
        found = difference(other, norm)
        if found > max(tolerance, thresholds.ROUNDING):  # a sum over the same gradients, in any order
            text = (
                f"the norm before clipping of update {number}, by its limit, is {other:.9g} instead of {norm:.9g}: "
                f"{_why_gradient(number, one, two, norm, other)}"
            )
            return _Parting(text, found)
    found = difference(two.grad_norm, one.grad_norm)
    if found > tolerance:
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
