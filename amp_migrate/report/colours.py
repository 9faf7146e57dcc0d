"""Python source as HTML, with a class for each kind of token."""

from __future__ import annotations

import io
import keyword
import tokenize
from html import escape

_CLASSES = {tokenize.COMMENT: "c", tokenize.STRING: "s"}


def coloured_lines(source: str) -> list[str]:
    """The lines, divided by LF alone; without colours where the source has no tokens."""
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
    return [_coloured(line, marks.get(number, [])) for number, line in enumerate(lines)]


def _coloured(line: str, marks: list[tuple[int, int, str]]) -> str:
    parts, position = [], 0
    for first, last, kind in marks:
        parts.append(escape(line[position:first]))
        parts.append(f'<span class="{kind}">{escape(line[first:last])}</span>')
        position = last
    return "".join([*parts, escape(line[position:])])
