"""A change as people read it: a script as a whole, a notebook cell by cell.

Programs are given the diff of the file as it is (`diff.py`), which `git apply` takes; a notebook's is one of JSON.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from amp_migrate.files.notebook import Notebook, NotebookError
from amp_migrate.line_matcher import hunks_of
from amp_migrate.report.diff import repository_path, unified_diff
from amp_migrate.report.hunks import text_of
from amp_migrate.result import Result


@dataclasses.dataclass(frozen=True)
class Part:
    """Source on both sides, with line ends as LF. `cell` is its number in a notebook (from 1), None for a script."""

    cell: int | None
    before: str
    after: str

    @property
    def changed(self) -> bool:
        return self.before != self.after


def parts(result: Result) -> list[Part]:
    """The code of a file: all cells of a notebook that can be read, else the text as a whole."""
    if result.path.endswith(".ipynb"):
        try:
            pairs = zip(Notebook(result.source).cells, Notebook(result.output).cells, strict=True)
            return [Part(before.number, before.source, after.source) for before, after in pairs]
        except (NotebookError, ValueError):
            pass  # not read, or written in a way of its own: what is left to show is the file
    return [Part(None, text_of(result.source), text_of(result.output))]


def code_of(path: str, content: bytes) -> list[tuple[int | None, str]]:
    """The code on one side: of each cell of a notebook that can be read, with its number; else the text as a whole."""
    if path.endswith(".ipynb"):
        try:
            return [(cell.number, cell.source) for cell in Notebook(content).cells]
        except NotebookError:
            pass
    return [(None, text_of(content))]


def diff_for_people(result: Result) -> str:
    """A unified diff to be read: the one that `git apply` takes, but for a notebook the source of its cells."""
    found = parts(result)
    if found[0].cell is None:
        return unified_diff(result.path, result.source, result.output).decode("utf-8", "replace")
    return "".join(line for part in found if part.changed for line in _cell_diff(result, part))


def _cell_diff(result: Result, part: Part) -> Iterator[str]:
    """Under the names that ruff gives to cells."""
    name = f"{repository_path(result.path)}:cell {part.cell}"
    old, new = (_lines(text) for text in (part.before, part.after))
    yield f"--- a/{name}\n"
    yield f"+++ b/{name}\n"
    yield from hunks_of(old, new)


def _lines(text: str) -> list[str]:
    """Lines that all end: a cell's last one never does, which is nothing to be told."""
    return [f"{line}\n" for line in text.removesuffix("\n").split("\n")]
