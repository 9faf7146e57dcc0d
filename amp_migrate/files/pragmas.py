"""Comments that ask to be left alone.

    optimizer.step(closure)  # amp-migrate: ignore[AMP913]
    for x, y in loader:  # amp-migrate: ignore[AMP050]
    # amp-migrate: ignore-file

One at the end of a line is for its statement, with the block that it opens; without codes it is for all.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

_WORD = b"amp-migrate:"
_PRAGMA = re.compile(r"#\s*amp-migrate:\s*ignore(?P<file>-file)?(?:\[(?P<codes>[\w\s,]*)\])?", re.IGNORECASE)
_ALL = ("AMP",)


class Pragma(NamedTuple):
    """The lines from `first` to `last` (from 1), and the beginnings of the codes that are not wanted there."""

    first: int
    last: int
    codes: tuple[str, ...]

    def covers(self, line: int, code: str) -> bool:
        """True for a finding or a source form with this code on this line."""
        return self.first <= line <= self.last and code.startswith(self.codes)


def pragmas(source: bytes) -> list[Pragma]:
    """The comments of a file; none where it does not parse."""
    if _WORD not in source:
        return []
    try:
        statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
        return [_pragma(line, found, statements) for line, found in _comments(source)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _comments(source: bytes) -> Iterator[tuple[int, re.Match[str]]]:
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        found = _PRAGMA.search(token.string) if token.type == tokenize.COMMENT else None
        if found is not None:
            yield token.start[0], found


def _pragma(line: int, found: re.Match[str], statements: list[ast.stmt]) -> Pragma:
    given = found["codes"]
    codes = tuple(code.strip().upper() for code in given.split(",") if code.strip()) if given is not None else _ALL
    if found["file"]:
        return Pragma(1, max((node.end_lineno or 1 for node in statements), default=1), codes or ("?",))
    own = [node for node in statements if node.lineno <= line <= _last_of_head(node)]
    first = min((node.lineno for node in own), default=line)
    last = max((node.end_lineno or line for node in own), default=line)
    return Pragma(first, last, codes or ("?",))


def _last_of_head(statement: ast.stmt) -> int:
    """The last line before the block of a compound statement; of a simple one, its last."""
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
        return max(statement.lineno, body[0].lineno - 1)
    return statement.end_lineno or statement.lineno
