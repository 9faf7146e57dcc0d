"""From the runs to the verdict: the checks in their order, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.verify.checks.curve import curve_lines, first_updates_lines
from amp_migrate.verify.checks.first_step import first_step_lines
from amp_migrate.verify.checks.neutral import neutral_lines
from amp_migrate.verify.checks.overflow import overflow_lines
from amp_migrate.verify.checks.precision import precision_lines
from amp_migrate.verify.checks.runs import Runs
from amp_migrate.verify.checks.structure import structure_lines
from amp_migrate.verify.comparison import Section, Verdict
from amp_migrate.verify.record import Record

NEUTRAL = "without AMP"
_CHECKS = {
    NEUTRAL: neutral_lines,
    "structure": structure_lines,
    "precision": precision_lines,
    "first step": first_step_lines,
    "overflow": overflow_lines,
    "ten updates": first_updates_lines,
    "curve": curve_lines,
}


def sections_of(runs: Runs) -> Iterator[Section]:
    """All checks, in the order in which they decide: causes before symptoms."""
    for title, check in _CHECKS.items():
        yield Section(title, tuple(check(runs)))


def why_not_comparable(original: Record, migrated: Record) -> str | None:
    """In words, where the original is no measure; None where it is."""
    if original.failure is not None and not _stops_alike(original, migrated):
        return f"the original {original.failure.words()}"
    if original.outcome == "killed":
        return f"the original was killed: {'; '.join(original.notes)}"
    if original.steps and not original.backwards:
        return "no backward was seen in the original (torch.autograd.grad?): there are no losses to compare"
    if not original.steps:
        if original.outcome == "time limit":
            return "the original made no optimizer step within the time limit"
        return "the original made no optimizer step (in this process: what a script starts itself is not watched)"
    if original.skipped == len(original.steps):
        return "the original skipped every optimizer step: more of them would bring its loss scale down"
    number = original.not_a_number()
    if number is None:
        return None
    why = ": its weights are in half precision" if original.half_weights else ""
    return f"the original becomes NaN at update {number}{why}"


def why_different(original: Record, migrated: Record) -> str | None:
    """In words, where the migrated script does not get as far as the original; None where it does."""
    if migrated.failure is not None and not _stops_alike(original, migrated):
        return f"the migrated script {migrated.failure.words()}"
    if migrated.outcome == "killed":
        return f"the migrated script was killed: {'; '.join(migrated.notes)}"
    return None


def _stops_alike(original: Record, migrated: Record) -> bool:
    """True where both train, and then stop with the same error (a missing test set, `sys.exit(accuracy)`)."""
    one, two = original.failure, migrated.failure
    if one is None or two is None or not original.steps:
        return False
    return one.kind == two.kind and (one.message == two.message or one.kind == "SystemExit")


def verdict_of(sections: list[Section], compared: str) -> tuple[Verdict, str]:
    """The first line that differs decides."""
    for section in sections:
        for line in section.lines:
            if line.status == "different":
                return "different", f"{section.title}: {line}"
    return "same", compared
