"""Results written to disk: the files of a unit all of them, or none."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from amp_migrate.files.write import Change, Unwritable, write_all
from amp_migrate.findings import Finding
from amp_migrate.report.model import Report
from amp_migrate.result import Result
from amp_migrate.rules.files import CHANGED_MEANWHILE, NO_ACCESS
from amp_migrate.wishes import with_what_they_need


def written(results: Iterable[Result]) -> list[Result]:
    """The results, once their files are written, in the same order; those of failures in the place of some."""
    given = list(results)
    came_to: dict[int, Result] = {}
    for unit in sorted(Report(tuple(given)).units(), key=_needs_others):
        done = list(came_to.values())
        ready = with_what_they_need([*done, *unit])[len(done) :] if _needs_others(unit) else unit
        came_to |= zip(map(id, unit), _written(ready), strict=True)
    return [came_to[id(result)] for result in given]


def _needs_others(unit: Sequence[Result]) -> bool:
    return any(result.needs for result in unit)


def _written(unit: Sequence[Result]) -> list[Result]:
    """What came of the files of one unit: where one of them cannot be written, none is."""
    changes = [Change(Path(one.path), one.source, one.output) for one in unit if one.changed]
    try:
        write_all(changes)
    except Unwritable as failure:
        return [_not_written(result, failure) for result in unit]
    return list(unit)


def _not_written(result: Result, failure: Unwritable) -> Result:
    if not result.changed:
        return result
    if Path(result.path) != failure.path:
        return dataclasses.replace(result, status="left", findings=(), output=result.source)
    finding = Finding(result.path, 1, CHANGED_MEANWHILE.code if failure.changed else NO_ACCESS.code, failure.message)
    return dataclasses.replace(result, status="error", findings=(finding,), output=result.source)
