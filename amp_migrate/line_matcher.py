"""Which lines two texts have in common, in a time that does not explode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from difflib import SequenceMatcher

_Line = TypeVar("_Line", str, bytes)
_MOST_PAIRS = 2_000_000  # about a second


def line_matcher(before: Sequence[_Line], after: Sequence[_Line]) -> SequenceMatcher[_Line]:
    """The matcher of two sequences of lines.

    It compares every line with all lines that are equal to it. Where thousands are (blank lines, tables of data), what
    is repeated most does not begin a match any more, which costs nothing but the beauty of the result.
    """
    from difflib import SequenceMatcher  # for what has changed alone

    counts, others = Counter(before), Counter(after)
    pairs = sum(count * others[line] for line, count in counts.items())
    return SequenceMatcher(None, before, after, autojunk=pairs > _MOST_PAIRS)
