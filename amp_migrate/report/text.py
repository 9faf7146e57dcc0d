"""What a person reads on standard error: findings, and the lines that sum it up."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from amp_migrate.findings import Finding
from amp_migrate.proved import line
from amp_migrate.report.model import Report, Tally
from amp_migrate.result import Result
from amp_migrate.selection import PLAIN, TITLES

_LEAVING_OUT = "; --ignore AMP050 leaves them out"


def report_lines(report: Report, verbose: int = 0) -> Iterator[str]:
    """What was found, unit by unit, and what sums it up. With `verbose` 1 files with nothing to do are named, too, and
    what the proof of a unit assumes; with 2 the plan of each unit is printed.
    """
    for unit in report.units():
        if verbose:
            yield from unit_lines(unit)
        yield from finding_lines(finding for result in unit for finding in result.findings)
        yield from proof_lines(unit, verbose)
        for result in unit:
            if verbose and result.status == "untouched":
                yield f"{result.path}: nothing to migrate"
            if result.plan:
                yield f"{result.path}: {result.plan}"
    yield from finding_lines(report.beside)
    yield from summary(report)


def unit_lines(unit: Sequence[Result]) -> Iterator[str]:
    """Which files belong together, and why; nothing for a file alone."""
    members = unit[0].unit
    if len(members) > 1:
        yield f"one unit of {len(members)} files:"
        for path, reason in members:
            yield f"    {shown(path)}{f': {reason}' if reason else ''}"


def proof_lines(unit: Sequence[Result], verbose: int = 0) -> Iterator[str]:
    """What was proved of a unit that changes, in one line; with `verbose`, each thing that was assumed."""
    changed = [result for result in unit if result.proof is not None]
    if not changed or changed[0].proof is None:
        return
    proof = changed[0].proof
    others = f" and {_files(len(changed) - 1)} more" if len(changed) > 1 else ""
    yield f"{shown(changed[0].path)}{others}: {line(proof)}"
    for one in proof.assumptions if verbose else ():
        yield f"    {shown(one.path)}:{one.line}: assumed: {one.what}"


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Place, code and what was found; then why it matters and what to do by hand."""
    for finding in findings:
        yield f"{place(finding)}: {finding.code} {finding.message}"
        yield f"    why: {finding.why}"
        yield f"    do:  {finding.what_to_do}"


def place(finding: Finding) -> str:
    """`path:line`, the path as it was given or relative to the current folder, whichever is shorter; in a notebook
    `path:cell 3:2`.
    """
    if finding.cell is not None:
        return f"{shown(finding.path)}:cell {finding.cell[0]}:{finding.cell[1]}"
    return f"{shown(finding.path)}:{finding.line}"


def shown(path: str) -> str:
    """A path for people."""
    return "<stdin>" if path == "-" else min(path, os.path.relpath(path), key=len)


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
    parts.append(f"{_files(files['untouched'])} with nothing to migrate")
    yield f"{', '.join(parts)}."
    for form, tally in report.forms():
        yield f"    {form} {TITLES[form]}: {_counts(tally)}{_LEAVING_OUT if form == PLAIN else ''}"
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
