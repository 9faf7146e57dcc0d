"""Notebooks among the files: scripts for the migration, notebooks for everybody who asked for one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from amp_migrate.findings import Finding
from amp_migrate.result import Result
from amp_migrate.seen import Seen

if TYPE_CHECKING:  # a tree without notebooks does not wait for what reads them
    from amp_migrate.files.notebook import Notebook

_Placed = TypeVar("_Placed", Finding, Seen)
# A notebook without any of these holds no source form, and is not read any further.
_WORDS = (b"apex", b"backward", b"autocast", b"GradScaler")


class Notebooks:
    """The notebooks that were read, with what they were read from."""

    def __init__(self) -> None:
        self._raw: dict[Path, bytes] = {}
        self._read: dict[Path, Notebook] = {}
        self._broken: dict[Path, str] = {}

    def script(self, file: Path, raw: bytes) -> bytes:
        """The source of a file as the migration sees it: of a notebook the code cells, of a script itself."""
        if file.suffix != ".ipynb":
            return raw
        self._raw[file] = raw
        if not any(word in raw for word in _WORDS):
            return b""
        from amp_migrate.files.notebook import Notebook, NotebookError

        try:
            self._read[file] = Notebook(raw)
        except NotebookError as error:
            self._broken[file] = str(error)
            return b""
        return self._read[file].script

    def result(self, file: Path, result: Result) -> Result:
        """The result of a script as that of its notebook."""
        if file not in self._raw:
            return result
        raw = self._raw[file]
        whole = dataclasses.replace(result, source=raw, output=raw)
        if file in self._broken:
            from amp_migrate.rules.files import UNREADABLE_NOTEBOOK

            finding = Finding(result.path, 1, UNREADABLE_NOTEBOOK.code, self._broken[file])
            return dataclasses.replace(whole, status="error", findings=(finding,))
        if file not in self._read:
            return whole
        from amp_migrate.files.notebook import NotebookError

        notebook = self._read[file]
        try:
            output = notebook.with_script(result.output) if result.changed else raw
        except NotebookError as error:
            from amp_migrate.rules.files import STEP_OVER_CELLS

            finding = Finding(result.path, 1, STEP_OVER_CELLS.code, str(error))
            return dataclasses.replace(whole, status="left", findings=(finding,), plan="")
        return dataclasses.replace(
            whole,
            output=output,
            findings=tuple(_placed(one, notebook) for one in result.findings),
            also=tuple(_placed(one, notebook) for one in result.also),
            seen=tuple(_placed(one, notebook) for one in result.seen),
        )


def _placed(one: _Placed, notebook: Notebook) -> _Placed:
    """With the lines of the notebook; columns stay those of the cell's line."""
    place, span = notebook.place(one.line), one.span
    if span is not None:
        span = dataclasses.replace(span, line=place.file_line, end_line=notebook.place(span.end_line).file_line)
    return dataclasses.replace(one, line=place.file_line, cell=(place.cell, place.line), span=span)
