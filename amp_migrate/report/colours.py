"""Python source with a mark for each kind of token: as HTML, and for a terminal."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Callable
from html import escape

from amp_migrate.report.terminal import GREEN, GREY, MAGENTA, Look

_CLASSES = {tokenize.COMMENT: "c", tokenize.STRING: "s"}
_STYLES = {"k": MAGENTA, "c": GREY, "s": GREEN}


def coloured_lines(source: str) -> list[str]:
    """The lines as HTML, divided by LF alone; without colours where the source has no tokens."""
    return _lines(source, lambda text, kind: f'<span class="{kind}">{escape(text)}</span>' if kind else escape(text))


def terminal_lines(source: str, look: Look) -> list[str]:
    """The lines for a terminal."""
    return _lines(source, lambda text, kind: look.paint(text, _STYLES[kind]) if kind else text)


def _lines(source: str, shown: Callable[[str, str], str]) -> list[str]:
    """Each line with its parts as they are to be shown, given the kind of a token or nothing."""
    lines = source.split("\n")
    marks: dict[int, list[tuple[int, int, str]]] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            kind = "k" if token.type == tokenize.NAME and keyword.iskeyword(token.string) else _CLASSES.get(token.type)
            if kind is not None:
                for row in range(token.start[0], token.end[0] + 1):
                    first = token.start[1] if row == token.start[0] else 0
                    last = token.end[1] if row == token.end[0] else len(lines[row - 1])
                    marks.setdefault(row - 1, []).append((first, last, kind))
    except (tokenize.TokenError, SyntaxError, IndexError):
        pass  # a notebook, or a script that does not parse
    return [_line(line, marks.get(number, []), shown) for number, line in enumerate(lines)]


def _line(line: str, marks: list[tuple[int, int, str]], shown: Callable[[str, str], str]) -> str:
    parts, position = [], 0
    for first, last, kind in marks:
        parts += [shown(line[position:first], ""), shown(line[first:last], kind)]
        position = last
    return "".join([*parts, shown(line[position:], "")])
