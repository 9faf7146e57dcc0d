"""What a person reads in the terminal: what was compared, each line of the verdict, and last the verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from amp_migrate.verify.comparison import Comparison, Line
from amp_migrate.verify.report.facts import failures, rows

_WIDTH = 100  # of a line of words
_COLOURS = {
    "same": "green",
    "ok": "green",
    "different": "red",
    "warning": "yellow",
    "not comparable": "yellow",
    "note": "bright_black",
    "not compared": "bright_black",
}


def lines(comparison: Comparison, colour: bool) -> Iterator[str]:
    """The report, without line ends."""
    for line in _lines(comparison):
        yield line if colour else click.unstyle(line)


def _lines(comparison: Comparison) -> Iterator[str]:
    yield from _compared(comparison)
    yield ""
    if comparison.sections:
        yield from _sections(comparison)
        yield ""
    remarks = [("note", note) for note in comparison.notes]
    remarks += [(name, failure) for name, failure in failures(comparison)]
    for name, remark in remarks:
        yield from _wrapped(f"{name}: {_plain(remark)}", "  ", "    ")
    if remarks:
        yield ""
    verdict = click.style(comparison.verdict, fg=_COLOURS[comparison.verdict], bold=True)
    yield f"{verdict}: {_plain(comparison.reason)}"


def _compared(comparison: Comparison) -> Iterator[str]:
    """A small table; a fact that holds for both sides is said once."""
    table = [("", comparison.before.title, comparison.after.title)]
    table += [(label, _plain(before), _plain(after)) for label, before, after in rows(comparison)]
    label_width = max(len(label) for label, _, _ in table)
    width = max((len(before) for _, before, after in table if before != after), default=0)
    for label, before, after in table:
        values = before if before == after else f"{before:{width}}  {after}"
        line = f"  {label:{label_width}}  {values}".rstrip()
        yield line if label else click.style(line, bold=True)


def _sections(comparison: Comparison) -> Iterator[str]:
    """All sections have the same columns."""
    every = comparison.lines()
    widths = [max((len(cell) for cell in column), default=0) for column in zip(*map(_cells, every), strict=True)]
    for section in comparison.sections:
        yield click.style(section.title, bold=True)
        for line in section.lines:
            yield from _line(line, widths)


def _cells(line: Line) -> tuple[str, str, str, str]:
    return line.status, _plain(line.check), _plain(line.number), _plain(line.threshold)


def _line(line: Line, widths: list[int]) -> Iterator[str]:
    """The text stands beside the numbers where it fits, else below."""
    cells = "  ".join(f"{cell:{width}}" for cell, width in zip(_cells(line), widths, strict=True))
    text = _plain(line.text)
    beside = len(cells) + len(text) + 4 <= _WIDTH
    shown = f"{cells}  {text}".rstrip() if beside else cells.rstrip()
    yield "  " + click.style(line.status, fg=_COLOURS[line.status]) + shown[len(line.status) :]
    if not beside:
        indent = " " * (widths[0] + 4)
        yield from _wrapped(text, indent, indent)


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    """Indented; names and paths stay whole."""
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _plain(text: str) -> str:
    """On one line, without what would steer the terminal: parts of it come from the user's script."""
    return "".join(char for char in " ".join(text.split()) if char.isprintable())
