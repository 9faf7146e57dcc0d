"""Notebooks among the files: scripts for the migration, notebooks for everybody who asked for one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from amp_migrate.files.notebook import Notebook, NotebookError
from amp_migrate.findings import Finding
from amp_migrate.result import Result

# A notebook without any of these holds no source form, and is not read any further.
_WORDS = (b"apex", b"backward", b"autocast", b"GradScaler")


class Notebooks:
    """The notebooks that were read, with what they were read from."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[bytes, Notebook]] = {}
        self._broken: dict[Path, tuple[bytes, str]] = {}

    def script(self, file: Path, raw: bytes) -> bytes:
        """The source of a file as the migration sees it: of a notebook the code cells, of a script itself."""
        if file.suffix != ".ipynb":
            return raw
        if not any(word in raw for word in _WORDS):
            self._known[file] = raw, Notebook(b'{"cells": []}')
            return b""
        try:
            notebook = Notebook(raw)
        except NotebookError as error:
            self._broken[file] = raw, str(error)
            return b""
        self._known[file] = raw, notebook
        return notebook.script

    def result(self, file: Path, result: Result) -> Result:
        """The result of a script as that of its notebook."""
        if file in self._broken:
            raw, why = self._broken[file]
            finding = Finding(result.path, 1, "AMP994", why)
            return dataclasses.replace(result, source=raw, output=raw, status="error", findings=(finding,))
        if file not in self._known:
            return result
        raw, notebook = self._known[file]
        findings = tuple(_placed(finding, notebook) for finding in result.findings)
        try:
            output = notebook.with_script(result.output) if result.changed else raw
        except NotebookError as error:
            finding = Finding(result.path, 1, "AMP986", str(error))
            return dataclasses.replace(result, source=raw, output=raw, status="left", findings=(finding,), plan="")
        return dataclasses.replace(result, source=raw, output=output, findings=findings)


def _placed(finding: Finding, notebook: Notebook) -> Finding:
    place = notebook.place(finding.line)
    return dataclasses.replace(finding, line=place.file_line, cell=(place.cell, place.line))
