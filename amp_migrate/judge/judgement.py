"""What `judge` came to: a verdict, what was found, what was proved and what was assumed."""

from __future__ import annotations

import dataclasses
from typing import Literal

from amp_migrate.check.proof import Assumption
from amp_migrate.findings import Finding
from amp_migrate.rules.catalogue import RULES
from amp_migrate.rules.rule import Rule

Verdict = Literal["same", "wrong", "undecided"]
EXIT_CODES: dict[Verdict, int] = {"same": 0, "wrong": 1, "undecided": 2}


@dataclasses.dataclass(frozen=True, order=True)
class Line:
    """A line (from 1) of one side, and its text."""

    line: int
    text: str
    cell: tuple[int, int] | None = None  # in a notebook: the number of the cell and the line in it, `line` in the file


@dataclasses.dataclass(frozen=True)
class Objection:
    """One finding about a migration, at a line of the migrated file, or of the original where that has no such file;
    the lines of both sides, None where a side has none.
    """

    path: str
    line: int
    code: str
    message: str
    function: str = ""
    before: Line | None = None
    after: Line | None = None
    cell: tuple[int, int] | None = None
    case: str = ""

    @property
    def rule(self) -> Rule:
        """What kind of finding this is."""
        return RULES[self.code]

    @property
    def as_finding(self) -> Finding:
        """For the reports that know nothing of two sides."""
        sides = [f"{name}: {one.text}" for name, one in (("before", self.before), ("after", self.after)) if one]
        return Finding(self.path, self.line, self.code, "\n".join([self.title, *sides]), self.cell, self.case)

    @property
    def title(self) -> str:
        """What was found, in one line."""
        where = f" in {self.function}" if self.function else ""
        return f"{self.rule.title}{where}: {self.message}"

    @property
    def is_wrong(self) -> bool:
        """False for what cannot be told, and for what is worth knowing only."""
        return not self.rule.is_undecided and self.rule.kind != "note"


@dataclasses.dataclass(frozen=True)
class Judgement:
    """`files` are those that were judged. `because` says why there was nothing to judge, and is empty else."""

    objections: tuple[Objection, ...] = ()
    proved: tuple[str, ...] = ()
    assumed: tuple[Assumption, ...] = ()
    files: tuple[str, ...] = ()
    because: str = ""
    ignored: int = 0

    @property
    def verdict(self) -> Verdict:
        if any(one.is_wrong for one in self.objections):
            return "wrong"
        return "undecided" if any(one.rule.is_undecided for one in self.objections) else "same"
