"""Notebooks: their code cells as one script, and back, with every byte of the file that need not change.

What only IPython understands (`%time`, `!pip install x`, whole cells of `%%bash`) is masked by names that stand alone,
and names divide the cells. After a migration each name must still be there, once, in order and not indented further:
then the cells can be told apart again, and the lines be put back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from amp_migrate.files.syntax import parses
from amp_migrate.line_matcher import LineMatcher

_MARK = "__amp_migrate_cell_{}__"
_MASK = "__amp_migrate_line_{}__"
_MARKS = re.compile(r"^__amp_migrate_cell_(\d+)__\n", re.MULTILINE)
_MASKS = re.compile(r"__amp_migrate_line_(\d+)__")
_PYTHON_CELLS = ("%%time", "%%capture", "%%prun")  # others are in another language
_MAGIC = re.compile(r"(?P<indent>[ \t]*)(?P<rest>(?:!|%%?\w|\?\??\w).*|[\w.]+\?\??\s*)")
_ASSIGNED = re.compile(r"(?P<indent>[ \t]*[\w, ]+=[ \t]*)(?P<rest>(?:!|%\w).*)")
_SHELL_CELL = re.compile(r"\s*%%(?:bash|sh|script|system|sx)\b|\s*%%!")
# What goes before the command of a line.
_COMMAND = re.compile(r"^[ \t]*(?:[\w, ]+=[ \t]*)?(?:!+|%(?=(?:pip|conda|mamba)\b)|%(?:sx|system)\b)")
_SPACE = re.compile(r"[ \t\n\r]*")


class NotebookError(Exception):
    """The file is no notebook that can be read, or cannot be written back; the message says why."""


class Cell(NamedTuple):
    """A code cell: its number among all cells (from 1), its source, and where that stands in the file."""

    number: int
    source: str
    start: int
    end: int


class Place(NamedTuple):
    """A line of the script in the notebook; all from 1."""

    cell: int
    line: int  # in the cell
    file_line: int


class Notebook:
    """A notebook of format 4 in Python. `script` is the source of its code cells. Raises NotebookError."""

    def __init__(self, raw: bytes) -> None:
        try:
            self._text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotebookError(f"byte 0x{raw[error.start]:02x} is not valid UTF-8") from None
        try:
            self.cells = list(_code_cells(self._text))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            raise NotebookError("is no notebook of format 4") from None
        self._masked: list[str] = []
        parts: list[str] = []
        for cell in self.cells:
            if parts:
                parts.append(_MARK.format(cell.number) + "\n")
            parts.append(self._without_magics(cell.source) + "\n")
        self._script = "".join(parts)

    @property
    def script(self) -> bytes:
        """The cells as one program."""
        return self._script.encode("utf-8", "surrogatepass")

    def with_script(self, script: bytes) -> bytes:
        """The notebook with the cells of a changed script; what has not changed stays as it is, byte for byte.

        Raises NotebookError where the cells cannot be told apart any more.
        """
        pieces = _MARKS.split(script.decode("utf-8", "surrogatepass"))
        numbers = [int(number) for number in pieces[1::2]]
        if numbers != [cell.number for cell in self.cells[1:]]:
            raise NotebookError("what belongs together in the new program is in several cells")
        text = self._text
        for cell, piece in reversed(list(zip(self.cells, pieces[::2], strict=True))):
            source = self._with_magics(piece.removesuffix("\n"))
            if source != cell.source:
                text = text[: cell.start] + self._encoded(cell, source) + text[cell.end :]
        return text.encode("utf-8")

    def place(self, line: int) -> Place:
        """Where a line (from 1) of the script stands."""
        first = 1
        for cell in self.cells:
            count = cell.source.count("\n") + 1
            if line < first + count or cell is self.cells[-1]:
                within = max(1, min(line - first + 1, count))
                return Place(cell.number, within, self.file_line(cell, within))
            first += count + 1  # the name between two cells
        return Place(1, 1, 1)

    def file_line(self, cell: Cell, line: int) -> int:
        """The line of the file, where each line of a cell's source has one of its own; else that of the source."""
        begin = self._text.count("\n", 0, cell.start) + 1
        elements = list(_values(self._text, cell.start)) if self._text[cell.start] == "[" else []
        if line <= len(elements):
            return self._text.count("\n", 0, elements[line - 1][1]) + 1
        return begin

    def commands(self) -> Iterator[tuple[Cell, int, str]]:
        """The lines that a shell is given: each with its cell and its line in that (from 1)."""
        for cell in self.cells:
            is_shell = _SHELL_CELL.match(cell.source) is not None
            goes_on = False
            for number, line in enumerate(cell.source.split("\n"), 1):
                command = _COMMAND.sub("", line, count=1)
                if is_shell or goes_on or command != line:
                    yield cell, number, command
                goes_on = line.endswith("\\") and (goes_on or command != line)

    # -- IPython's own lines ----------------------------------------------------------------------------

    def _without_magics(self, source: str) -> str:
        head = source.lstrip()
        if head.startswith("%%") and not head.startswith(_PYTHON_CELLS):
            return self._mask(source) + "\n" * source.count("\n")
        if parses(source):
            return source
        done: list[str] = []
        lines = source.split("\n")
        while lines:
            line = lines.pop(0)
            found = _MAGIC.fullmatch(line) or _ASSIGNED.fullmatch(line)
            indent = line[: len(line) - len(line.lstrip(" \t"))]
            if found is not None and parses("\n".join([*done, f"{indent}pass"])):
                hidden = [found["rest"]]
                while hidden[-1].endswith("\\") and lines:
                    hidden.append(lines.pop(0))
                done.append(found["indent"] + self._mask("\n".join(hidden)))
                done += [""] * (len(hidden) - 1)
            else:
                done.append(line)
        return "\n".join(done)

    def _mask(self, hidden: str) -> str:
        self._masked.append(hidden)
        return _MASK.format(len(self._masked) - 1)

    def _with_magics(self, source: str) -> str:
        lines: list[str] = []
        skip = 0
        for line in source.split("\n"):
            if skip and not line.strip():
                skip -= 1
                continue
            found = _MASKS.search(line)
            if found is not None:
                hidden = self._masked[int(found[1])]
                line = line.replace(found[0], hidden)
                skip = hidden.count("\n")
            lines.append(line)
        return "\n".join(lines)

    # -- JSON -------------------------------------------------------------------------------------------

    def _encoded(self, cell: Cell, source: str) -> str:
        """The JSON of a cell's new source, in the manner of the old one, whose unchanged lines are taken over."""
        raw = self._text[cell.start : cell.end]
        only_ascii = self._text.isascii() and "\\u" in self._text
        if raw[0] != "[":
            return json.dumps(source, ensure_ascii=only_ascii)
        elements = [self._text[start:end] for _, start, end in _values(self._text, cell.start)]
        before = [json.loads(element) for element in elements]
        after = [line for line in re.split(r"(?<=\n)", source) if line]  # str.splitlines knows more line ends
        if not after:
            return "[]"
        new: list[str] = []
        for tag, first, last, start, end in LineMatcher(before, after).get_opcodes():
            if tag == "equal":
                new += elements[first:last]
            else:
                new += [json.dumps(line, ensure_ascii=only_ascii) for line in after[start:end]]
        opening = raw[1 : _after_space(raw, 1)]
        closing = raw[len(raw[:-1].rstrip(" \t\n\r")) : -1]
        return f"[{opening}{f',{opening}'.join(new) if opening else ', '.join(new)}{closing}]"


def _code_cells(text: str) -> Iterator[Cell]:
    """Raises ValueError, KeyError, TypeError and the like for other JSON."""
    notebook = json.loads(text)
    language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    cells = {key: (start, end) for key, start, end in _values(text, _after_space(text, 0))}["cells"]
    if language != "python":
        return
    for number, (_, start, _) in enumerate(_values(text, cells[0]), 1):
        places = {key: (begin, end) for key, begin, end in _values(text, start)}
        if "source" not in places or json.loads(text[slice(*places.get("cell_type", (0, 0)))] or '""') != "code":
            continue
        source = json.loads(text[slice(*places["source"])])
        if not isinstance(source, str):
            source = "".join(source)
        yield Cell(number, source, *places["source"])


def _values(text: str, start: int) -> Iterator[tuple[str | None, int, int]]:
    """The values of the JSON object or array that begins at `start`: the key, where each begins, and where it ends."""
    decoder = json.JSONDecoder()
    is_object = text[start] == "{"
    if not is_object and text[start] != "[":
        raise ValueError("neither an object nor an array")
    position = _after_space(text, start + 1)
    while text[position] not in "}]":
        key = None
        if is_object:
            key, position = decoder.raw_decode(text, position)
            position = _after_space(text, _after_space(text, position) + 1)  # the colon
        _, end = decoder.raw_decode(text, position)
        yield key, position, end
        position = _after_space(text, end)
        if text[position] == ",":
            position = _after_space(text, position + 1)


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found is not None else position
