"""What users do not want to see or to have changed: by options, by configuration, and by comments in the code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from amp_migrate.files.pragmas import Pragma, pragmas
from amp_migrate.line_matcher import LineMatcher
from amp_migrate.options import Options
from amp_migrate.result import Result, Status


def as_wished(results: Iterable[Result], options: Options) -> list[Result]:
    """The results without the findings that are ignored. A unit of which a line is not to be changed stays, whole."""
    found = [_Wishes(result, options) for result in results]
    forms = {one.result.unit or one.result.path: one.result.form for one in found if one.result.form}
    kept = {one.unit for one in found if one.result.changed and one.keep(forms.get(one.unit, ""))}
    return with_what_they_need([one.left() if one.unit in kept else one.shown() for one in found])


def with_what_they_need(results: list[Result]) -> list[Result]:
    """The results, of which those stay as they are that need a file of another unit which stays."""
    changed = {result.path for result in results if result.changed}
    lacking = {
        result.unit: path for result in results if result.changed for path in result.needs if path not in changed
    }
    return [
        result.left_with(lacking[result.unit]) if result.changed and result.unit in lacking else result
        for result in results
    ]


class _Wishes:
    def __init__(self, result: Result, options: Options) -> None:
        self.result = result
        self.unit = result.unit or result.path
        self._options = options
        self._pragmas = pragmas(result.source)
        self._everywhere = tuple(
            code for patterns, codes in options.per_file_ignores if patterns.match(result.path) for code in codes
        )

    def keep(self, form: str) -> bool:
        """True where a line that the migration of this form would change is to stay."""
        if self._everywhere and form.startswith(self._everywhere):
            return True
        wanted = [pragma for pragma in self._pragmas if form.startswith(pragma.codes)]
        return bool(wanted) and any(_meet(pragma, lines) for lines in _changed_lines(self.result) for pragma in wanted)

    def left(self) -> Result:
        """The file as it was, and nothing said."""
        status: Status = "left" if self.result.status == "migrated" else self.result.status
        ignored = len(self.result.findings) + bool(self.result.sites)
        return dataclasses.replace(
            self.result, output=self.result.source, status=status, findings=(), plan="", ignored=ignored
        )

    def shown(self) -> Result:
        """The result with the findings that are wanted."""
        findings = tuple(one for one in self.result.findings if self._shows(one.line, one.code))
        if findings == self.result.findings:
            return self.result
        return dataclasses.replace(self.result, findings=findings, ignored=len(self.result.findings) - len(findings))

    def _shows(self, line: int, code: str) -> bool:
        if not self._options.selection.shows(code) or (self._everywhere and code.startswith(self._everywhere)):
            return False
        return not any(pragma.covers(line, code) for pragma in self._pragmas)


def _changed_lines(result: Result) -> list[tuple[int, int]]:
    """The lines (from 1) of the source that go or are changed; for what is only added, the lines around it."""
    before, after = result.source.splitlines(), result.output.splitlines()
    changes = LineMatcher(before, after).get_opcodes()
    changed = ((first, last) for tag, first, last, _, _ in changes if tag != "equal")
    return [(first + 1, last) if last > first else (first, first + 1) for first, last in changed]


def _meet(pragma: Pragma, lines: tuple[int, int]) -> bool:
    return pragma.first <= lines[1] and lines[0] <= pragma.last
