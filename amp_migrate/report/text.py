"""What a person reads on standard error: findings, and the line that sums it up."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from amp_migrate.findings import Finding
from amp_migrate.result import Result
from amp_migrate.rules import RULES
from amp_migrate.selection import PLAIN, TITLES

_LEAVING_OUT = "; --ignore AMP050 leaves them out"


def units(results: Sequence[Result]) -> list[list[Result]]:
    """The results by unit, in the order of the first file of each; a file without a unit is one of its own."""
    found: dict[object, list[Result]] = {}
    for result in results:
        found.setdefault(result.unit or result.path, []).append(result)
    return list(found.values())


def unit_lines(unit: Sequence[Result]) -> Iterator[str]:
    """Which files belong together, and why; nothing for a file alone."""
    members = unit[0].unit
    if len(members) > 1:
        yield f"one unit of {len(members)} files:"
        for path, reason in members:
            yield f"    {_shown(path)}{f': {reason}' if reason else ''}"


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Place, code and what was found; then why it matters and what to do by hand."""
    for finding in findings:
        yield f"{place(finding)}: {finding.code} {finding.message}"
        rule = RULES[finding.code]
        yield f"    why: {rule.why}"
        yield f"    do:  {rule.what_to_do}"


def place(finding: Finding) -> str:
    """`path:line`, the path as it was given or relative to the current folder, whichever is shorter."""
    return f"{_shown(finding.path)}:{finding.line}"


def _shown(path: str) -> str:
    return "<stdin>" if path == "-" else min(path, os.path.relpath(path), key=len)


def summary(results: Sequence[Result], *, written: bool) -> Iterator[str]:
    """A line in which every file is counted once, and a line for each source form that was found."""
    files = Counter(result.status for result in results)
    parts = []
    if files["migrated"]:
        parts.append(f"{_files(files['migrated'])} {'migrated' if written else 'would be migrated'}")
    if files["left"]:
        parts.append(f"{_files(files['left'])} left alone")
    if files["error"]:
        parts.append(f"{_files(files['error'])} not processed")
    parts.append(f"{_files(files['untouched'])} with nothing to migrate")
    yield f"{', '.join(parts)}."
    for form, title in TITLES.items():
        own = [unit for unit in units(results) if any(result.form == form for result in unit)]
        if own:
            yield f"    {form} {title}: {_counts(own)}{_LEAVING_OUT if form == PLAIN else ''}"


def _counts(found: Sequence[Sequence[Result]]) -> str:
    """Units, files and uses of one source form: those migrated, and the others."""
    counts = []
    for status, word in (("migrated", "migrated"), ("left", "left alone"), ("error", "not processed")):
        some = [unit for unit in found if _status(unit) == status]
        own = [result for unit in some for result in unit if result.form]
        sites = sum(result.sites for result in own)
        if some:
            counts.append(f"{_number(len(some), 'unit')} {word} ({_files(len(own))}, {_number(sites, 'use')})")
    return ", ".join(counts)


def _status(unit: Sequence[Result]) -> str:
    return next(result.status for result in unit if result.form)


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _files(count: int) -> str:
    return _number(count, "file")
