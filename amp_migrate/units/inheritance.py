"""Which files hold the rest of a class: what it inherits, and what overrides its methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from amp_migrate.units.nearby import Nearby
from amp_migrate.units.reach import Reach
from amp_migrate.units.sources import Node, Sources, node_of

_Related = Callable[[Node], Iterable[Node]]


class Inheritance:
    """The local base classes and derived classes of whatever touches or reaches a handle."""

    def __init__(self, sources: Sources, reach: Reach | Nearby) -> None:
        self._sources = sources
        self._reach = reach
        self._derived: dict[Node, list[Node]] = {}

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
        below = list(_closure(own, self._derived_from))
        yield from ((derived, base, True) for derived, base in below)
        lines = [*own, *(derived for derived, _ in below)]
        yield from ((base, derived, False) for base, derived in _closure(lines, self.bases))

    def _derived_from(self, node: Node) -> list[Node]:
        """What inherits directly from a class, under whatever name it is imported."""
        if node not in self._derived:
            users = {user for name in self._names_of(node) for user in self._sources.referring(name)}
            self._derived[node] = sorted(user for user in users if node in self.bases(user))
        return self._derived[node]

    def _names_of(self, node: Node) -> set[Node]:
        """A definition, and the names that other modules only have from an import of it."""
        waiting, names = [node], {node}
        while waiting:
            new = {user for user in self._sources.referring(waiting.pop()) if self._sources.definition(user) is None}
            waiting += new - names
            names |= new
        return names


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
