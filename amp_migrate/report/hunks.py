"""A change as whole lines that replace whole lines: what review tools take."""

from __future__ import annotations

import dataclasses
import io
import tokenize
from collections.abc import Iterator

from amp_migrate.line_matcher import LineMatcher
from amp_migrate.result import Result


@dataclasses.dataclass(frozen=True)
class Hunk:
    """The lines from `first` to `last` (from 1, both included) become `lines`, which have no line ends."""

    first: int
    last: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def hunks(result: Result) -> Iterator[Hunk]:
    """The change of a file, in its order. What is only inserted comes with the line before it, or the one after."""
    before, after = text_of(result.source).split("\n"), text_of(result.output).split("\n")
    matcher = LineMatcher(before, after)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            continue
        if first == last and first > 0:
            first, start = first - 1, start - 1
        elif first == last:
            last, end = last + 1, end + 1
        yield Hunk(first + 1, last, tuple(after[start:end]))


def text_of(source: bytes) -> str:
    """Python source as text, with line ends as LF; what its encoding does not know is replaced."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    except SyntaxError:
        encoding = "utf-8"
    try:
        text = source.decode(encoding, errors="replace")
    except (UnicodeError, LookupError):  # a codec of something else than texts
        text = source.decode(errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")
