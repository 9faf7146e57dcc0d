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
    yield _line("rewrite", ["mutants", *_COLUMNS])
    for rewrite, counts in found.items():
        yield _line(rewrite, [counts.total(), *(counts[column] for column in _COLUMNS)])
    every = sum(found.values(), Counter())
    yield _line("all", [every.total(), *(every[column] for column in _COLUMNS)])


def _line(title: str, cells: list[object]) -> str:
    return f"{title:<48}" + "".join(f"{cell!s:>14}" for cell in cells)
