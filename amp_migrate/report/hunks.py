"""A change as whole lines that replace whole lines: what review tools take."""

from __future__ import annotations

import dataclasses
import io
import re
import tokenize
from collections.abc import Iterator

from amp_migrate.line_matcher import LineMatcher
from amp_migrate.result import Result


@dataclasses.dataclass(frozen=True)
class Hunk:
    """The lines from `first` to `last` (from 1, both included) become `lines`, which have no line ends; `newline` is
    that of the file. Without `lines`, those of the source go with their line ends.
    """

    first: int
    last: int
    lines: tuple[str, ...]
    newline: str = "\n"

    @property
    def text(self) -> str:
        return self.newline.join(self.lines)


def hunks(result: Result) -> Iterator[Hunk]:
    """The change of a file, in its order. What is only inserted comes with the line before it, or the one after. So
    does a blank line that stays alone, which would look as if nothing stayed, and a deletion up to the end of a file
    that ends without a newline, since the one before it goes.
    """
    before, after = text_of(result.source).split("\n"), text_of(result.output).split("\n")
    newline = newline_of(result.source)
    matcher = LineMatcher(before, after)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            continue
        is_unclear = first == last or after[start:end] == [""] or (start == end and last == len(before))
        if is_unclear and first > 0:
            first, start = first - 1, start - 1
        elif is_unclear and last < len(before):
            last, end = last + 1, end + 1
        yield Hunk(first + 1, last, tuple(after[start:end]), newline)


def newline_of(source: bytes) -> str:
    """How the lines of a file end: as its first one does."""
    end = re.search(rb"\r\n?|\n", source)
    return end[0].decode() if end is not None else "\n"


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
