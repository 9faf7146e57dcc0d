"""The result of `verify`: what was run, each line of the verdict with its number and threshold, and the records."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

from amp_migrate.verify.record import Record
from amp_migrate.verify.version import Version

TOOL = "amp-migrate verify"
JSON_VERSION = 1  # raised where a key changes its meaning or goes; new keys may come at any time

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
    version: Version = dataclasses.field(default_factory=Version)


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
        """Data for `--json`: what it is, and everything, the records included. JSON has no NaN and no infinity: null,
        and "Infinity" with its sign.
        """
        data: dict[str, Any] = _without_nan(dataclasses.asdict(self))
        return {"tool": TOOL, "version": JSON_VERSION, **data}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Comparison:
        """From what `as_json` gives. Raises KeyError, TypeError and the like for other data."""
        sections = [Section(one["title"], tuple(Line(**line) for line in one["lines"])) for one in data["sections"]]
        return cls(
            data["verdict"],
            data["reason"],
            _side(data["before"]),
            _side(data["after"]),
            data["device"],
            tuple(sections),
            {name: _record(record) for name, record in data["runs"].items()},
            tuple(data["notes"]),
            data["command"],
        )


def _side(data: dict[str, Any]) -> Side:
    return Side(**{**data, "args": tuple(data["args"]), "version": Version(**data["version"])})


def _record(data: dict[str, Any]) -> Record:
    """Losses, and norms of steps that were made, are there in every record: what is null was NaN."""
    record = Record.of(_with_infinities(data))
    for backward in record.backwards:
        backward.loss = math.nan if backward.loss is None else backward.loss
    for step in record.steps:
        step.grad_norm = math.nan if step.applied and step.grad_norm is None else step.grad_norm
    return record


def _without_nan(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _without_nan(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_without_nan(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    return data


def _with_infinities(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _with_infinities(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_with_infinities(value) for value in data]
    return float(data) if data in ("Infinity", "-Infinity") else data
