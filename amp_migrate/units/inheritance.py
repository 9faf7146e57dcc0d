"""Which files hold the rest of a class: what it inherits, and what overrides its methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path

from amp_migrate.units.reach import Reach
from amp_migrate.units.sources import Node, Sources, node_of

_Related = Callable[[Node], Iterable[Node]]


class Inheritance:
    """The local base classes and derived classes of whatever touches or reaches a handle."""

    def __init__(self, sources: Sources, reach: Reach) -> None:
        self._sources = sources
        self._reach = reach

    def bases(self, node: Node) -> list[Node]:
        """The local base classes of a class; nothing for other definitions."""
        definition = self._sources.definition(node)
        named = filter(None, map(node_of, definition.bases)) if definition is not None else ()
        return sorted(self._sources.origins(named))

    def relatives(self, files: Iterable[Path]) -> Iterator[tuple[Node, Node, bool]]:
        """What inherits from the classes of some files that touch or reach a handle, and all that these and those
        inherit from: a class, the one it was found by, and whether it is derived from that one. Siblings do not count.
        """
        own = [node for file in files for node in self._reach.definitions(file)]
        below = list(_closure(own, lambda node: self._derived.get(node, ())))
        yield from ((derived, base, True) for derived, base in below)
        lines = [*own, *(derived for derived, _ in below)]
        yield from ((base, derived, False) for base, derived in _closure(lines, self.bases))

    @cached_property
    def _derived(self) -> dict[Node, list[Node]]:
        """What inherits directly from a class that touches or reaches a handle, and so reaches it as well."""
        derived: dict[Node, list[Node]] = {}
        for file in self._reach.reaching_files:
            for node in self._reach.definitions(file):
                for base in self.bases(node):
                    derived.setdefault(base, []).append(node)
        return derived


def _closure(start: list[Node], related: _Related) -> Iterator[tuple[Node, Node]]:
    """What is related to some nodes, directly or through others, with the node that it was found by."""
    waiting, seen = list(start), set(start)
    while waiting:
        node = waiting.pop(0)
        for other in related(node):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
                yield other, node
