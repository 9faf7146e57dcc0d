"""What a person reads on standard error: findings, and the lines that sum it up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from amp_migrate.proved import in_words, line, proved
from amp_migrate.report.findings import finding_lines, shown
from amp_migrate.report.model import Report, Tally
from amp_migrate.report.terminal import UNWRAPPED, Look
from amp_migrate.result import Result
from amp_migrate.rules.source_forms import PLAIN, TITLES

if TYPE_CHECKING:
    from amp_migrate.check.proof import Assumption

_LEAVING_OUT = f"; --ignore {PLAIN} leaves them out"


def report_lines(report: Report, verbose: int = 0, look: Look = UNWRAPPED) -> Iterator[str]:
    """What was found, and what sums it up. With `verbose` 1 units and files with nothing to do are named, too, and what
    the proof of a unit assumes; with 2 the plan of each unit is printed.
    """
    sources = {result.path: result.source for result in report.results}
    units = report.units()
    for part in (
        finding_lines(report.findings, sources, look, verbose=verbose > 0),
        _of_units(units) if verbose else _wrapped(_proofs(units), look),
    ):
        told = list(part)
        yield from [*told, ""] if told else []
    yield from _wrapped(summary(report), look)


def _wrapped(lines: Iterable[str], look: Look) -> Iterator[str]:
    """Lines of prose; what goes on in the next line is indented further."""
    for text in lines:
        indent = " " * (len(text) - len(text.lstrip()))
        yield from look.hanging(indent, text.lstrip(), indent=f"{indent}    ")


def _of_units(units: Iterable[Sequence[Result]]) -> Iterator[str]:
    """Unit by unit: its files, what was proved of it and what not, and its plan; the files with nothing to do."""
    for unit in units:
        yield from unit_lines(unit)
        words = _proof_of(unit)
        yield from [words] if words else []
        for one in _assumptions_of(unit):
            yield f"    {shown(one.path)}:{one.line}: assumed: {one.what}"
        for result in unit:
            if result.status == "untouched":
                yield f"{result.path}: nothing to migrate"
            if result.plan:
                yield f"{result.path}: {result.plan}"


def unit_lines(unit: Sequence[Result]) -> Iterator[str]:
    """Which files belong together, and why; nothing for a file alone."""
    members = unit[0].unit
    if len(members) > 1:
        yield f"one unit of {len(members)} files:"
        for path, reason in members:
            yield f"    {shown(path)}{f': {reason}' if reason else ''}"


def _proof_of(unit: Sequence[Result]) -> str:
    """What was proved of a unit that changes, in one line; empty for others."""
    changed = [result for result in unit if result.proof is not None]
    if not changed or changed[0].proof is None:
        return ""
    others = f" and {_files(len(changed) - 1)} more" if len(changed) > 1 else ""
    return f"{shown(changed[0].path)}{others}: {line(changed[0].proof)}"


def _assumptions_of(unit: Sequence[Result]) -> Sequence[Assumption]:
    return next((result.proof.assumptions for result in unit if result.proof is not None), ())


def _proofs(units: Sequence[Sequence[Result]]) -> Iterator[str]:
    """What was proved in a run, in one line."""
    told = [(words, unit) for unit in units if (words := _proof_of(unit))]
    if len(told) == 1:
        yield told[0][0]
    elif told:
        assumed = [one for _, unit in told for one in _assumptions_of(unit)]
        yield f"{_number(len(told), 'unit')}: {in_words(proved(), assumed)}"


def summary(report: Report) -> Iterator[str]:
    """A line in which every file is counted once, and a line for each source form that was found."""
    files = report.files()
    parts = []
    if files["migrated"]:
        parts.append(f"{_files(files['migrated'])} {'migrated' if report.written else 'would be migrated'}")
    if files["left"]:
        parts.append(f"{_files(files['left'])} left alone")
    if files["error"]:
        parts.append(f"{_files(files['error'])} not processed")
    if files["untouched"]:
        parts.append(f"{_files(files['untouched'])} with nothing to migrate")
    yield f"{', '.join(parts) or 'no Python file and no notebook was found'}."
    for form, tally in report.forms():
        yield f"    {form} {TITLES[form]}: {_counts(tally)}{_LEAVING_OUT if form == PLAIN else ''}"
    yield from (f"    {line}" for line in report.spelled)
    if report.ignored:
        yield f"    {_number(report.ignored, 'finding')} ignored, as asked."


def _counts(tally: Tally) -> str:
    """Units, files and uses of one source form: those migrated, and the others."""
    words = {"migrated": "migrated", "left": "left alone", "error": "not processed"}
    parts = [
        f"{_number(tally.units[status], 'unit')} {word} "
        f"({_files(tally.files[status])}, {_number(tally.uses[status], 'use')})"
        for status, word in words.items()
        if tally.units[status]
    ]
    # Of companions one may go and another stay, in the same file.
    parts += [
        f"{_number(tally.uses[status], 'use')} there {word}"
        for status, word in words.items()
        if tally.uses[status] and not tally.units[status]
    ]
    return ", ".join(parts)


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _files(count: int) -> str:
    return _number(count, "file")
