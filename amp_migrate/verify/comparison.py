"""The result of `verify`: what was run, each line of the verdict with its number and threshold, and the records."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from amp_migrate.verify.record import Record

Verdict = Literal["same", "different", "not comparable"]
Status = Literal["ok", "different", "warning", "note", "not compared"]


def after_restart(run: str) -> str:
    """The name of the second phase of a run, where a script was run again to resume."""
    return f"{run}, after the restart"


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the verdict."""

    check: str  # "first loss"
    status: Status
    number: str = ""  # what was measured, "3.1e-06"
    threshold: str = ""  # what it may be, "<= 1.0e-04"
    text: str = ""  # what it means; where it differs, the cause

    def __str__(self) -> str:
        measured = f"{self.number} ({self.threshold})" if self.threshold else self.number
        return ": ".join(part for part in (self.check, measured, self.text) if part)


@dataclasses.dataclass(frozen=True)
class Section:
    """Lines under one heading, in the order in which they decide: "neutralised run", "structure", ..."""

    title: str
    lines: tuple[Line, ...]


@dataclasses.dataclass(frozen=True)
class Side:
    """One of the two programs compared."""

    title: str  # "original", "migrated"
    script: str  # as the user named it
    args: tuple[str, ...]
    output: str  # the file that holds what the script printed


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What `verify` found. `runs` holds every run by its name ("original", "migrated", "original without AMP", ...)."""

    verdict: Verdict
    reason: str  # in words: why different, or why not comparable; for "same", what was compared
    before: Side
    after: Side
    device: str
    sections: tuple[Section, ...]
    runs: dict[str, Record]
    notes: tuple[str, ...] = ()  # what was done to make it run, and what the run cannot prove
    command: str = ""  # what was typed to get it, if anything was

    @property
    def exit_code(self) -> int:
        return {"same": 0, "different": 1, "not comparable": 2}[self.verdict]

    def lines(self) -> list[Line]:
        return [line for section in self.sections for line in section.lines]

    def as_json(self) -> dict[str, Any]:
        """Data for `--json`: everything, the records included."""
        return dataclasses.asdict(self)
