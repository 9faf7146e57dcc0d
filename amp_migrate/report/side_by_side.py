"""A change as an HTML table with both sides beside each other; below each other where the window is narrow."""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import zip_longest

from amp_migrate.line_matcher import LineMatcher
from amp_migrate.report.colours import coloured_lines
from amp_migrate.report.parts import Part

_CONTEXT = 3  # lines around a change
_AROUND = 2  # lines around what a finding is about


class SideBySide:
    """One part of a change. Rows of lines that findings are about get an id to link to, made of `anchor`."""

    def __init__(self, part: Part, anchor: str, marked: Container[int]) -> None:
        self._anchor = anchor
        self._marked = marked
        self._before, self._after = coloured_lines(part.before), coloured_lines(part.after)
        self._old_lines, self._new_lines = part.before.split("\n"), part.after.split("\n")
        matcher = LineMatcher(self._old_lines, self._new_lines)
        self._groups = list(matcher.get_grouped_opcodes(_CONTEXT))
        self._shown = {line for group in self._groups for _, first, last, *_ in group for line in range(first, last)}

    @property
    def counts(self) -> tuple[int, int]:
        """How many lines go, and how many come."""
        changes = [one for group in self._groups for one in group if one[0] != "equal"]
        return sum(last - first for _, first, last, *_ in changes), sum(end - start for *_, start, end in changes)

    def shows(self, line: int) -> bool:
        """True for a line (from 1) of the source that the table has."""
        return line - 1 in self._shown

    def table(self) -> str:
        """Each stretch is a body of its own: what goes stands together, and so does what comes."""
        bodies = [body for group in self._groups for body in (_GAP, *self._bodies(group))]
        first_line = bool(self._groups) and self._groups[0][0][1] == 0
        return f'<table class="diff">{_HEAD}{"".join(bodies[first_line:])}</table>'

    def _bodies(self, group: list[tuple[str, int, int, int, int]]) -> Iterator[str]:
        for tag, *stretch in group:
            rows = (f"<tr>{self._old(old)}{self._new(new)}</tr>" for old, new in self._pairs(*stretch))
            yield f'<tbody class="{tag}">{"".join(rows)}</tbody>'

    def _pairs(self, first: int, last: int, start: int, end: int) -> Iterator[tuple[int | None, int | None]]:
        """What stands beside each other, in the order of both sides; lines that are only indented further are pairs."""
        old = [line.strip() for line in self._old_lines[first:last]]
        new = [line.strip() for line in self._new_lines[start:end]]
        for _, i, j, k, n in LineMatcher(old, new).get_opcodes():
            yield from zip_longest(range(first + i, first + j), range(start + k, start + n))

    def _old(self, index: int | None) -> str:
        if index is None:
            return "<td></td>"
        name = f' id="{line_id(self._anchor, index + 1)}" class="found"' if index + 1 in self._marked else ""
        return f'<td data-n="{index + 1}"{name}>{self._before[index]}</td>'

    def _new(self, index: int | None) -> str:
        return f'<td data-n="{index + 1}">{self._after[index]}</td>' if index is not None else "<td></td>"


_HEAD = '<thead><tr><th scope="col">before</th><th scope="col">after</th></tr></thead>'
_GAP = '<tbody class="gap"><tr><td colspan="2">⋯</td></tr></tbody>'


def line_id(anchor: str, line: int) -> str:
    """What a link to a line says."""
    return f"{anchor}:{line}"


def excerpt(source: str, line: int) -> str:
    """The lines around one of the source (from 1)."""
    lines = coloured_lines(source)
    first, last = max(0, line - 1 - _AROUND), min(len(lines), line + _AROUND)
    rows = (
        f'<span data-n="{index + 1}"{" class=found" if index + 1 == line else ""}>{lines[index]}</span>'
        for index in range(first, last)
    )
    return f'<pre class="excerpt">{"".join(rows)}</pre>'
