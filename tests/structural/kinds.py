"""The kinds of mutants: each a function that finds its places in a file."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator

from tests.structural.syntax import Replacements, Source, rebuilt


@dataclasses.dataclass(frozen=True, eq=False)
class Change:
    """One mutant: the node that it is about, and what stands in the place of which nodes."""

    node: ast.AST
    replacements: Replacements

    def apply(self, source: Source) -> str:
        return ast.unparse(rebuilt(source.tree, self.replacements))


Kind = Callable[[Source], Iterator[Change]]
KINDS: dict[str, Kind] = {}


def kind(function: Kind) -> Kind:
    """A kind is called like its function."""
    KINDS[function.__name__.replace("_", " ").strip()] = function
    return function


def dropped(node: ast.AST) -> Change:
    return Change(node, {node: []})
