"""How text looks: wrapped at words and in colours on a terminal, plain everywhere else.

What is piped keeps its lines: `grep` finds a text whole, and a log of CI is as wide as whoever reads it.
"""

from __future__ import annotations

import dataclasses
import os
import textwrap
from collections.abc import Iterator
from typing import TextIO

BOLD, UNDERLINED, RED, GREEN, YELLOW, MAGENTA, CYAN, GREY = "1", "4", "31", "32", "33", "35", "36", "90"
_WIDEST = 120  # a longer line of prose is hard to read
_NARROWEST = 20


@dataclasses.dataclass(frozen=True)
class Look:
    """`width` is that of the terminal, None where lines are not wrapped."""

    width: int | None = None
    has_colours: bool = False

    def paint(self, text: str, *styles: str) -> str:
        """Text in some styles, where there are colours."""
        return f"\033[{';'.join(styles)}m{text}\033[0m" if self.has_colours and text else text

    def hanging(self, label: str, text: str, painted: str = "", indent: str | None = None) -> Iterator[str]:
        """A label and a text behind it, of which more lines begin below its first word, or after `indent`. `painted` is
        the label in colours.
        """
        rest = " " * len(label) if indent is None else indent
        first, *more = self._lines(text, label, rest)
        yield ((painted or label) + first[len(label) :]).rstrip()
        yield from more

    def _lines(self, text: str, first: str, rest: str) -> list[str]:
        if self.width is None:
            return [first + text]
        width = max(self.width, len(rest) + _NARROWEST)
        word, *_ = [*text.split(None, 1), ""]
        if len(first) + len(word) > width:  # a long path fills a line of its own
            return [first, *_wrapped(text, width, rest, rest)]
        return _wrapped(text, width, first, rest) or [first]


def _wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


UNWRAPPED = Look()


def look_of(stream: TextIO) -> Look:
    """How text looks on a stream; https://no-color.org for colours."""
    if not stream.isatty():
        return UNWRAPPED
    has_colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Look(min(columns_of(stream), _WIDEST), has_colours)


def columns_of(stream: TextIO) -> int:
    """How wide a terminal is. `shutil` can tell, too: that of standard output, and it imports all compressions."""
    setting = os.environ.get("COLUMNS", "")
    if setting.isdecimal() and int(setting):
        return int(setting)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
