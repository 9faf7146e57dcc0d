"""One attempt to migrate a unit: script by script, and what the scripts share has to come out the same."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, pairwise, zip_longest

from amp_migrate.engine import Outcome
from amp_migrate.findings import Finding
from amp_migrate.line_matcher import LineMatcher
from amp_migrate.result import Result, Status
from amp_migrate.rules.units import BELONGS_TOGETHER

# What is written by index gets the type of what it is written into, which changes nothing where these are equal.
_CAST_FOR_A_WRITE = re.compile(rb"\.to\([\w.]+\.dtype\)")
_WORST_LAST: tuple[Status, ...] = ("untouched", "migrated", "left", "error")


@dataclasses.dataclass(frozen=True)
class Attempt:
    """What came of a unit: a Result for each file, in path order, and what prevents the migration, if anything does.

    `given` are the functions that got a parameter, by path and name: whoever calls them must be in the unit, too.
    `unread` and `savers` are those of its outcomes.
    """

    results: tuple[Result, ...]
    reasons: tuple[Finding, ...] = ()
    given: frozenset[tuple[str, str]] = frozenset()
    unread: frozenset[str] = frozenset()
    savers: frozenset[str] = frozenset()

    @property
    def changed(self) -> dict[str, bytes]:
        """The new content of the files that change."""
        return {result.path: result.output for result in self.results if result.changed}

    def contradicts(self, other: Attempt) -> bool:
        """True where both change a file, and not in the same way."""
        mine, theirs = self.changed, other.changed
        return any(mine[path] != theirs[path] for path in mine.keys() & theirs.keys())

    @property
    def converts(self) -> bool:
        """True where a condition is converted to a bool, since it is not known to be one."""
        return any(result.output.count(b"bool(") > result.source.count(b"bool(") for result in self.results)

    @property
    def is_readable(self) -> bool:
        """True where every file parses, and nothing went wrong."""
        return all(result.status != "error" for result in self.results)

    def of_form(self, form: str) -> Attempt:
        """The same, counted as one source form, although scripts of the unit would be of several (rule H1)."""
        results = (dataclasses.replace(result, form=form if result.form else "") for result in self.results)
        return dataclasses.replace(self, results=tuple(results))

    def left(self, *reasons: Finding) -> Attempt:
        """The unit is not to be written after all."""
        return Attempt(tuple(_refused(result, reasons) for result in self.results), reasons)


def attempt_of(members: Mapping[str, str], programs: Mapping[str, Outcome]) -> Attempt:
    """The programs of a unit, by the paths of their scripts, as one: migrated where all of them are and agree on what
    they share, else left alone. `members` are the paths of all its files, in their order, and why they belong to it.
    """
    reasons = tuple(dict.fromkeys(reason for outcome in programs.values() for reason in reasons_of(outcome)))
    reasons = aloud(reasons) or reasons or tuple(_disagreements(programs))
    results = []
    for path in members:
        found = [one for outcome in programs.values() for one in outcome.results if one.path == path]
        if not found:
            continue
        merged = dataclasses.replace(_merged(found), unit=tuple(members.items()))
        results.append(_refused(merged, reasons) if reasons else merged)
    given = frozenset(one for outcome in programs.values() for one in outcome.given)
    unread = frozenset(name for outcome in programs.values() for name in outcome.unread)
    savers = frozenset(name for outcome in programs.values() for name in outcome.savers)
    return Attempt(tuple(results), reasons, given if not reasons else frozenset(), unread, savers)


def aloud(reasons: Iterable[Finding]) -> tuple[Finding, ...]:
    """The reasons that are no silence. A script that borrows from a training may show no GPU, which says nothing of the
    script that trains.
    """
    return tuple(reason for reason in reasons if reason.rule.kind != "silence")


def reasons_of(outcome: Outcome) -> Iterator[Finding]:
    """What prevents the migration of a program: it stands in one of its files, the others point there."""
    refusal = outcome.refusal
    said = (refusal.rule.code, refusal.message) if refusal is not None else None
    for result in outcome.results:
        for finding in result.findings:
            if result.status == "error" or (finding.code, finding.message) == said:
                yield finding


def _disagreements(programs: Mapping[str, Outcome]) -> Iterator[Finding]:
    """Where two scripts need a file that they share in two ways."""
    for (script, outcome), (other_script, other) in combinations(programs.items(), 2):
        theirs = {result.path: result for result in other.results}
        for result in outcome.results:
            if result.path in theirs and _agreed([result, theirs[result.path]]) is None:
                line = min(_edits(result) ^ _edits(theirs[result.path]))[0]
                ours, its = _told_apart(_made_of(result, line), _made_of(theirs[result.path], line))
                message = f"{script} needs {ours} here, and {other_script} needs {its}"
                yield Finding(result.path, line + 1, BELONGS_TOGETHER.code, message, case="two ways")


def _made_of(result: Result, line: int) -> list[str]:
    """What a program makes of a line, counted from 0."""
    made = next((text for first, end, text in _edits(result) if first <= line < max(end, first + 1)), None)
    text = result.source.splitlines(keepends=True)[line : line + 1] if made is None else [made]
    return [one.strip() for one in b"".join(text).decode("utf-8", "replace").splitlines()]


def _told_apart(ours: list[str], its: list[str]) -> tuple[str, str]:
    """The first line in which they differ, of both."""
    one, other = next((pair for pair in zip_longest(ours, its) if pair[0] != pair[1]), (None, None))
    return f"`{one}`" if one else "no line", f"`{other}`" if other else "no line"


def _agreed(results: list[Result]) -> bytes | None:
    """What several programs make of a file that they share; None where they need it in two ways.

    A program that does not need a cast takes it over from one that does.
    """
    if len({result.output for result in results}) == 1:
        return results[0].output
    edits = [_edits(result) for result in results]
    shared, every = edits[0].intersection(*edits[1:]), sorted(edits[0].union(*edits[1:]))
    lines = results[0].source.splitlines(keepends=True)
    is_apart = all(one[1] <= other[0] for one, other in pairwise(every))
    if not is_apart or not all(_only_casts(lines, edit) for edit in every if edit not in shared):
        return None
    for first, end, text in reversed(every):
        lines[first:end] = [text]
    return b"".join(lines)


def only_casts(result: Result) -> bool:
    """True where a file changes in nothing but casts for what is written by index."""
    lines = result.source.splitlines(keepends=True)
    return all(_only_casts(lines, edit) for edit in _edits(result))


def _only_casts(lines: list[bytes], edit: tuple[int, int, bytes]) -> bool:
    first, end, text = edit
    return _CAST_FOR_A_WRITE.sub(b"", text) == _CAST_FOR_A_WRITE.sub(b"", b"".join(lines[first:end]))


def _edits(result: Result) -> set[tuple[int, int, bytes]]:
    """What a migration changes: the lines that go, counted from 0, and what comes in their place."""
    before, after = result.source.splitlines(keepends=True), result.output.splitlines(keepends=True)
    changes = LineMatcher(before, after).get_opcodes()
    return {(first, end, b"".join(after[j:k])) for kind, first, end, j, k in changes if kind != "equal"}


def _merged(results: list[Result]) -> Result:
    """What several programs say of one file."""
    return dataclasses.replace(
        results[0],
        output=_agreed(results) or results[0].output,
        status=max((result.status for result in results), key=_WORST_LAST.index),
        findings=tuple(sorted({finding for result in results for finding in result.findings})),
        sites=max(result.sites for result in results),
        seen=tuple(sorted({one for result in results for one in result.seen}, key=lambda one: one.order)),
        also=tuple(sorted({one for result in results for one in result.also})),
        plan="\n".join(dict.fromkeys(result.plan for result in results if result.plan)),
    )


def _refused(result: Result, reasons: tuple[Finding, ...]) -> Result:
    """A file of a unit that is left alone: with its own reasons, or pointing to the first."""
    own = tuple(reason for reason in reasons if reason.path == result.path)
    if own:
        return _stays(result, own)
    if result.sites or result.status in ("left", "error"):
        one = reasons[0]
        message = f"belongs together with {one.path}, which cannot be migrated (line {one.line}, {one.code})"
        return _stays(result, (Finding(result.path, 1, BELONGS_TOGETHER.code, message, because=(one.path, one.code)),))
    return dataclasses.replace(result, output=result.source, status="untouched", findings=(), plan="", form="")


def _stays(result: Result, findings: tuple[Finding, ...]) -> Result:
    status: Status = "error" if result.status == "error" else "left"
    return dataclasses.replace(result, output=result.source, status=status, findings=findings, plan="")
