"""Which lines two texts have in common, in a time that does not explode; and their difference, as `diff -u` says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import takewhile
from typing import TypeVar

_Line = TypeVar("_Line", bound=str | bytes)
_MOST_PAIRS = 2_000_000  # about a second


class LineMatcher(SequenceMatcher[_Line]):
    """The matcher of two sequences of lines. What both begin and end with stays out of the search.

    It compares every line with all lines that are equal to it. Where thousands are (blank lines, tables of data), what
    is repeated most does not begin a match any more, which costs nothing but the beauty of the result.
    """

    def __init__(self, before: Sequence[_Line], after: Sequence[_Line]) -> None:
        self._start = _in_common(zip(before, after, strict=False))
        shorter = min(len(before), len(after)) - self._start
        backwards = zip(reversed(before[len(before) - shorter :]), reversed(after[len(after) - shorter :]), strict=True)
        self._end = _in_common(backwards)
        old, new = before[self._start : len(before) - self._end], after[self._start : len(after) - self._end]
        super().__init__(None, old, new, autojunk=_pairs(old, new) > _MOST_PAIRS)

    def get_matching_blocks(self) -> list[Match]:
        start: int = self._start
        end: int = self._end
        *found, nothing = super().get_matching_blocks()
        blocks = [Match(start + one.a, start + one.b, one.size) for one in found]
        before, after = start + nothing.a, start + nothing.b
        return [
            *([Match(0, 0, start)] if start else []),
            *blocks,
            *([Match(before, after, end)] if end else []),
            Match(before + end, after + end, 0),
        ]


def hunks_of(before: Sequence[str], after: Sequence[str], context: int = 3) -> Iterator[str]:
    """The lines of a unified diff, without its header. The lines of both sides have their ends."""
    for group in LineMatcher(before, after).get_grouped_opcodes(context):
        (_, first, _, start, _), (_, _, last, _, end) = group[0], group[-1]
        yield f"@@ -{_range(first, last)} +{_range(start, end)} @@\n"
        for tag, i, j, k, n in group:
            if tag == "equal":
                yield from (f" {line}" for line in before[i:j])
                continue
            yield from (f"-{line}" for line in before[i:j])
            yield from (f"+{line}" for line in after[k:n])


def _in_common(pairs: Iterator[tuple[_Line, _Line]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _pairs(before: Sequence[_Line], after: Sequence[_Line]) -> int:
    counts, others = Counter(before), Counter(after)
    return sum(count * others[line] for line, count in counts.items())


def _range(first: int, last: int) -> str:
    """Lines as `diff` counts them: from 1, and an empty range is named by the line before it."""
    if last - first == 1:
        return f"{last}"
    return f"{first + (last > first)},{last - first}"
