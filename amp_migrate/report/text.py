"""What a person reads on standard error: findings, and the line that sums it up."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from amp_migrate.findings import Finding
from amp_migrate.result import Result
from amp_migrate.rules import RULES


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


def summary(results: Sequence[Result], *, written: bool) -> str:
    """One line in which every file and every use of apex.amp is counted once."""
    files = Counter(result.status for result in results)
    parts = []
    if files["migrated"]:
        parts.append(f"{_files(files['migrated'])} {'migrated' if written else 'would be migrated'}")
    if files["left"]:
        parts.append(f"{_files(files['left'])} left alone")
    if files["error"]:
        parts.append(f"{_files(files['error'])} not processed")
    parts.append(f"{_files(files['untouched'])} without apex.amp")
    sites = sum(result.sites for result in results)
    if not sites:
        return ", ".join(parts) + "."
    done = sum(result.sites for result in results if result.status == "migrated")
    return f"{', '.join(parts)}; uses of apex.amp: {sites}, migrated {done}, left {sites - done}."


def _files(count: int) -> str:
    return f"{count} file" if count == 1 else f"{count} files"
