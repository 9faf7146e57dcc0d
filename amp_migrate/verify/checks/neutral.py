"""Neutralised: without AMP, the migrated script is the original, to the last bit.

This needs no threshold and no Apex. It catches whatever was lost or merged wrongly on the way.
"""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.verify.checks.runs import Runs
from amp_migrate.verify.comparison import Line
from amp_migrate.verify.record import Record, Step


def neutral_lines(runs: Runs) -> Iterator[Line]:
    """One line: the same bits, or the first place where they part and what that means."""
    original, migrated = runs.original_plain, runs.migrated_plain
    if original is None or migrated is None:
        yield Line("bit-identical", "not compared", text="there is no run without AMP")
        return
    if original.failure is not None and migrated.failure is None:
        yield Line("bit-identical", "not compared", text="the original does not run without AMP")
        return
    if migrated.failure is not None and original.failure is None:
        one = migrated.failure
        text = f"without AMP the migrated script stops: {one.kind}: {one.message} ({one.path}:{one.line})"
        yield Line("bit-identical", "different", text=text)
        return
    cause = _first_cause(original, migrated)
    number = f"{len(migrated.backwards)} losses, {len(migrated.steps)} steps"
    if cause is None:
        yield Line("bit-identical", "ok", number, "the same bits")
        return
    again = runs.original_plain_again
    own = _first_cause(original, again) if again is not None else None
    if own is not None and _is_only_numbers(original, migrated):
        text = f"the original is not repeatable: run twice, {own}. The lines below judge"
        yield Line("bit-identical", "warning", number, "the same bits", text)
        return
    yield Line("bit-identical", "different", number, "the same bits", f"without AMP, {cause}")


def _is_only_numbers(original: Record, migrated: Record) -> bool:
    return len(original.backwards) == len(migrated.backwards) and len(original.steps) == len(migrated.steps)


def _first_cause(original: Record, other: Record) -> str | None:
    """Where two runs part, in words; None where they are equal in every bit."""
    ones, others = list(original.updates()), list(other.updates())
    for number, (one, two) in enumerate(zip(ones, others, strict=False), 1):
        if len(one.backwards) != len(two.backwards):
            return (
                f"update {number} has {len(two.backwards)} backward(s) instead of {len(one.backwards)}: "
                "a step moved in or out of its condition, or a backward was lost"
            )
        if [step.optimizer for step in one.steps] != [step.optimizer for step in two.steps]:
            return f"update {number} steps {_steps(two.steps)} instead of {_steps(one.steps)}"
        if _differ(one.loss, two.loss):
            return f"the loss of update {number} is {two.loss:.9g} instead of {one.loss:.9g}: {_why_loss(number)}"
        if [clip.name for clip in one.clips] != [clip.name for clip in two.clips]:
            return f"update {number} clips {len(two.clips)} time(s) instead of {len(one.clips)}"
        if _differ(one.grad_norm, two.grad_norm):
            return (
                f"the gradient norm of update {number} is {two.grad_norm:.9g} instead of {one.grad_norm:.9g} "
                f"at equal losses: {_why_gradient(number)}"
            )
    if len(original.backwards) != len(other.backwards):
        return f"there are {len(other.backwards)} backwards instead of {len(original.backwards)}"
    if len(original.steps) != len(other.steps):
        return f"there are {len(other.steps)} optimizer steps instead of {len(original.steps)}"
    if original.digest != other.digest and original.outcome == other.outcome == "finished":
        return "the weights at the end differ"
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
