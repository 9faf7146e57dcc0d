"""The table by rewrite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import get_args

from tests.metamorphic.outcome import Kind, Mutant

_COLUMNS = get_args(Kind)


def table(mutants: Iterable[Mutant]) -> Iterator[str]:
    """A line for each rewrite: how many mutants it made, and what came of them."""
    found: dict[str, Counter[str]] = {}
    for one in mutants:
        found.setdefault(one.rewrite, Counter())[one.kind] += 1
    yield _line("rewrite", ["mutants", "share alike", *_COLUMNS])
    for rewrite, counts in sorted(found.items()):
        yield _line(rewrite, _cells(counts))
    yield _line("all", _cells(sum(found.values(), Counter())))


def _cells(counts: Counter[str]) -> list[object]:
    """Of those of which more is asked than to end, how many are decided alike."""
    compared = counts.total() - counts["ended"]
    share = f"{counts['alike'] / compared:.1%}" if compared else "-"
    return [counts.total(), share, *(counts[column] for column in _COLUMNS)]


def _line(title: str, cells: list[object]) -> str:
    return f"{title:<48}" + "".join(f"{cell!s:>12}" for cell in cells)
