"""Neutralised: without AMP, the migrated script is the original, to the last bit.

This needs no threshold and no Apex. It catches whatever was lost or merged wrongly on the way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from amp_migrate.verify import thresholds
from amp_migrate.verify.checks.runs import Runs, difference
from amp_migrate.verify.comparison import Line
from amp_migrate.verify.record import Record, Step, Update

_CHECK = "bit-identical"
_SAME = "the same bits"


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
        yield Line(_CHECK, "different", text=text)
        return
    parting = _first_parting(original, migrated)
    number = f"{len(migrated.backwards)} losses, {len(migrated.steps)} steps"
    if parting is None:
        yield Line(_CHECK, "ok", number, _SAME)
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


def _first_parting(original: Record, other: Record) -> _Parting | None:
    """None where they are equal in every bit."""
    ones, others = list(original.updates()), list(other.updates())
    for number, (one, two) in enumerate(zip(ones, others, strict=False), 1):
        parting = _parting_in(number, one, two)
        if parting is not None:
            return parting
    if len(original.backwards) != len(other.backwards):
        return _Parting(f"there are {len(other.backwards)} backwards instead of {len(original.backwards)}")
    if len(original.steps) != len(other.steps):
        return _Parting(f"there are {len(other.steps)} optimizer steps instead of {len(original.steps)}")
    if original.outcome == other.outcome == "finished":
        if original.digest != other.digest:
            return _Parting("the weights at the end differ")
        if original.buffers != other.buffers:
            return _Parting("the buffers at the end differ (running statistics: eval() lost, or another forward?)")
    return None


def _parting_in(number: int, one: Update, two: Update) -> _Parting | None:
    if len(one.backwards) != len(two.backwards):
        return _Parting(
            f"update {number} has {len(two.backwards)} backward(s) instead of {len(one.backwards)}: "
            "a step moved in or out of its condition, or a backward was lost"
        )
    if [step.optimizer for step in one.steps] != [step.optimizer for step in two.steps]:
        return _Parting(f"update {number} steps {_steps(two.steps)} instead of {_steps(one.steps)}")
    if _differ(one.loss, two.loss):
        text = f"the loss of update {number} is {two.loss:.9g} instead of {one.loss:.9g}: {_why_loss(number)}"
        return _Parting(text, difference(two.loss, one.loss))
    if [clip.name for clip in one.clips] != [clip.name for clip in two.clips]:
        return _Parting(f"update {number} clips {len(two.clips)} time(s) instead of {len(one.clips)}")
    if _differ(one.grad_norm, two.grad_norm):
        text = (
            f"the gradient norm of update {number} is {two.grad_norm:.9g} instead of {one.grad_norm:.9g} "
            f"at equal losses: {_why_gradient(number)}"
        )
        return _Parting(text, difference(two.grad_norm, one.grad_norm))
    return None


def _differ(one: float, other: float) -> bool:
    return one != other and not (one != one and other != other)


def _steps(steps: list[Step]) -> str:
    return " and ".join(f"optimizer {step.optimizer + 1}" for step in steps) or "nothing"


def _why_loss(number: int) -> str:
    if number == 1:
        return "another forward, another loss or other data"
    return "the updates before it were not the same"


def _why_gradient(number: int) -> str:
    if number == 1:
        return "the gradients were changed between backward and step (a clip, a division, a second backward)"
    return "gradients of an earlier update are still there (a lost zero_grad), or were changed before the step"
