"""Indentation that Python reads and LibCST does not: blocks with tabs beside blocks with spaces.

    class Net(nn.Module):
    ⇥   def __init__(self): ...
    ⇥   def forward(self, x):
                    x = self.stem(x)        sixteen spaces below one tab: deeper for Python, however wide a tab is

Such a file can be read with spaces in place of its tabs. It is not written: new lines could be indented in no way that
its author would recognise.
"""

from __future__ import annotations

import tokenize
from io import BytesIO

_TAB = 8  # columns, in Python's own tokenizer


def with_spaces(source: bytes) -> bytes:
    """A file with spaces for the tabs that indent its lines, strings of several lines excepted; the file as it is where
    Python cannot split it into tokens. Every line keeps its number.
    """
    try:
        tokens = list(tokenize.tokenize(BytesIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return source
    starts = {token.start[0] for token in tokens if not token.line[: token.start[1]].strip(" \t")}
    lines = source.splitlines(keepends=True)
    return b"".join(_spaced(line) if number in starts else line for number, line in enumerate(lines, start=1))


def _spaced(line: bytes) -> bytes:
    code = line.lstrip(b" \t")
    return line[: len(line) - len(code)].expandtabs(_TAB) + code
