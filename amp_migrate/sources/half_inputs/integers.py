"""Where half values end: integers and booleans that are made of them go on without a precision.

    drawn = torch.multinomial(chances, n)
    tokens = tokens * (drawn == 0).long()          `tokens` is made of itself alone, whatever `chances` are

A cast of `chances` makes no half input then, and stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import libcst as cst

from amp_migrate.facts.dataflow import Path, reads
from amp_migrate.facts.tree import called_name, walk
from amp_migrate.models import names
from amp_migrate.models.queries import counts


def passing_on(parts: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    """The parts of an expression or statement without those that end in integers."""
    inside = {one for ending in _endings(parts) for one in walk(ending)}
    return [part for part in parts if part not in inside]


def passed_on(paths: Iterable[Path], parts: Sequence[cst.CSTNode]) -> list[Path]:
    """What is read by an expression or statement, and not by its parts that end in integers alone."""
    found = Counter(paths)
    for ending in _endings(parts):
        found.subtract(reads(ending))
    return [path for path, count in found.items() if count > 0]


def _endings(parts: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    """The outermost parts that make integers or booleans."""
    found = [part for part in parts if _makes_integers(part)]
    inside = {one for ending in found for one in walk(ending) if one is not ending}
    return [ending for ending in found if ending not in inside]


def _makes_integers(part: cst.CSTNode) -> bool:
    return isinstance(part, cst.Comparison) or (isinstance(part, cst.Call) and called_name(part) in names(counts))
