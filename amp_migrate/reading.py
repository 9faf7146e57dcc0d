"""The files of a unit, read as far as they can be: where one cannot, the unit is left alone, and who is told what."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from amp_migrate.files.indentation import with_spaces
from amp_migrate.files.nesting import deepest
from amp_migrate.files.parse import Unparsable, parse
from amp_migrate.findings import Finding
from amp_migrate.result import Result
from amp_migrate.rules.files import UNPARSABLE
from amp_migrate.sources.screen import may_hold_apex_amp, may_train, may_train_for_another

_DEEP = 100  # levels of syntax: whatever ends with less of them does so for another reason


@dataclasses.dataclass(frozen=True)
class Input:
    """One file of a unit: its path, the name that imports of it resolve to, and its bytes."""

    path: str
    name: str
    source: bytes


class Unreadable(Exception):
    """A file of a unit cannot be read, for the reason that a finding gives; `results` are those of all its files."""

    def __init__(self, files: Sequence[Input], broken: Input, finding: Finding) -> None:
        super().__init__(finding.message)
        self.results = _left_for(files, broken, finding)


@dataclasses.dataclass(frozen=True)
class Read:
    """The files of a unit as they are read. `read_only` holds those, by path, that LibCST takes with another
    indentation only: as they are written, and why they cannot be changed.
    """

    files: Sequence[Input]
    read_only: Mapping[str, tuple[Input, Finding]]

    def as_written(self, results: list[Result]) -> list[Result]:
        """The results for the files as they are. Raises Unreadable where one that can only be read would change."""
        changed = next((result.path for result in results if result.changed and result.path in self.read_only), None)
        if changed is not None:
            raise Unreadable([self._as_it_is(file) for file in self.files], *self.read_only[changed])
        sources = {path: file.source for path, (file, _) in self.read_only.items()}
        return [
            _without_columns(dataclasses.replace(result, source=sources[result.path], output=sources[result.path]))
            if result.path in sources
            else result
            for result in results
        ]

    def _as_it_is(self, file: Input) -> Input:
        return self.read_only[file.path][0] if file.path in self.read_only else file


def read_unit(files: Sequence[Input]) -> Read:
    """The files, each parsed. Raises Unreadable where one does not parse in any way."""
    readable: list[Input] = []
    read_only: dict[str, tuple[Input, Finding]] = {}
    for file in files:
        try:
            parse(file.source)
            readable.append(file)
        except Unparsable as error:
            finding = dataclasses.replace(error.finding, path=file.path)
            spaced = dataclasses.replace(file, source=with_spaces(file.source)) if error.is_python else file
            if not _parses(spaced):
                raise Unreadable(files, file, finding) from None
            read_only[file.path] = (file, finding)
            readable.append(spaced)
    return Read(readable, read_only)


def too_deep(files: Sequence[Input]) -> list[Result]:
    """Nobody writes code that is nested so deeply, or hundreds of functions that call each other; but programs do."""
    depths = {file: deepest(file.source) for file in files}
    file = max(depths, key=depths.__getitem__)
    depth, line = depths[file]
    nested = f"the code is nested too deeply to be analysed: {depth} levels"
    message = nested if depth > _DEEP else "its calls go too deep to be analysed"
    finding = Finding(file.path, line, UNPARSABLE.code, message, case="depth")
    return _left_for(files, file, finding)


def _without_columns(result: Result) -> Result:
    """A result for a file that was read with another indentation: its columns are those of no file."""
    findings, also = (
        tuple(dataclasses.replace(one, span=None) for one in found) for found in (result.findings, result.also)
    )
    seen = tuple(dataclasses.replace(one, span=None) for one in result.seen)
    return dataclasses.replace(result, findings=findings, also=also, seen=seen)


def _parses(file: Input) -> bool:
    try:
        parse(file.source)
    except Unparsable:
        return False
    return True


def _left_for(files: Sequence[Input], broken: Input, finding: Finding) -> list[Result]:
    """The results of a unit that one of its files keeps from being migrated."""
    return [
        Result(file.path, file.source, file.source, "error", (finding,)) if file is broken else _left_beside(file)
        for file in files
    ]


def _left_beside(file: Input) -> Result:
    concerns = (may_hold_apex_amp, may_train, may_train_for_another)
    is_left = any(may(file.source) for may in concerns)  # a model beside it is nobody's loss
    return Result(file.path, file.source, file.source, "left" if is_left else "untouched")
