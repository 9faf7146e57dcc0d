"""Which definitions touch an amp handle, and which come to one through what they refer to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from amp_migrate.units.sources import Node, Sources


class Use(NamedTuple):
    """Something refers to a definition; `through` are the files that only pass the name on (`__init__`)."""

    user: Node
    used: Node
    through: frozenset[Path]


class Reach:
    """Computed over the whole universe when it is first asked for; names are followed from the handle backwards, so
    that only files are parsed that hold its words or the name of something that comes to it.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.tie = sources.tie

    @cached_property
    def touching(self) -> set[Node]:
        """Names that mean the handle, and definitions that use it directly.

        A definition that merely has a parameter or an attribute named like it is one if it gets its value from another.
        """
        found = {node for file in self._sources.holding(self.tie.words) for node in self._direct(file)}
        waiting = list(found)
        while waiting:
            node = waiting.pop()
            users = self._sources.referring(node) if self._means_handle(node) else self._handing(node)
            new = {user for user in users if user not in found}
            found |= new
            waiting += new
        return found

    @cached_property
    def files(self) -> set[Path]:
        """The amp files: those with a direct use."""
        return {node.file for node in self.touching}

    def uses_of(self, file: Path) -> Iterator[Use]:
        """What the definitions of a file refer to in other files that touches or reaches a handle."""
        for node in self.definitions(file):
            yield from (use for use in self._uses(node) if use.used.file != file)

    def uses_below(self, file: Path) -> Iterator[Use]:
        """The uses of a file's definitions, those of what they use, and so on, from one file to another."""
        waiting = list(self.definitions(file))
        seen = set(waiting)
        while waiting:
            for use in self._uses(waiting.pop(0)):
                if use.used.file != use.user.file:
                    yield use
                if use.used not in seen:
                    seen.add(use.used)
                    waiting.append(use.used)

    def definitions(self, file: Path) -> list[Node]:
        """The definitions of a file that touch or reach a handle, its code on module level included."""
        return self._by_file.get(file, [])

    @property
    def reaching_files(self) -> list[Path]:
        """The files with such definitions."""
        return sorted(self._by_file)

    def may_concern(self, node: Node) -> bool:
        """False for a name that comes to no handle, in a file where others do."""
        return not node.name or node.file not in self._by_file or node in self.touching or node in self._edges

    def is_whole(self, *files: Path) -> bool:
        """True for files that both set up a training and scale its losses."""
        called: set[str] = set()
        for node in (node for file in files for node in self.definitions(file)):
            definition = self._sources.definition(node)
            if definition is not None and node in self.touching:
                called |= definition.called
        return all(any(half.fullmatch(name) for name in called) for half in self.tie.halves)

    @cached_property
    def _by_file(self) -> dict[Path, list[Node]]:
        by_file: dict[Path, list[Node]] = {}
        for node in {*self.touching, *self._edges}:
            if self._sources.definition(node) is not None:
                by_file.setdefault(node.file, []).append(node)
        return {file: sorted(nodes) for file, nodes in by_file.items()}

    @cached_property
    def _edges(self) -> dict[Node, set[Node]]:
        """From all that refers to a touching or reaching name, one step to that name."""
        edges: dict[Node, set[Node]] = {}
        seen = set(self.touching)
        waiting = list(seen)
        while waiting:
            node = waiting.pop()
            for user in self._sources.referring(node):
                if user == node:
                    continue
                edges.setdefault(user, set()).add(node)
                if user not in seen:
                    seen.add(user)
                    waiting.append(user)
        return edges

    def _uses(self, node: Node) -> Iterator[Use]:
        for used in sorted(self._edges.get(node, ())):
            for end, through in self._ends(used, frozenset()):
                yield Use(node, end, through)

    def _ends(self, node: Node, through: frozenset[Path]) -> Iterator[tuple[Node, frozenset[Path]]]:
        """The definitions behind a name that may be imported from elsewhere."""
        if node in self.touching or self._sources.definition(node) is not None:
            yield node, through
        elif node.file not in through:
            for origin in sorted(self._edges.get(node, ())):
                yield from self._ends(origin, through | {node.file})

    def _direct(self, file: Path) -> Iterator[Node]:
        summary = self._sources.summary(file)
        for name, definition in summary.definitions.items():
            if definition.uses_handle:
                yield Node(file, name)
        for name, origins in summary.exports.items():
            if any(map(self.tie.means, origins)):
                yield Node(file, name)

    def _means_handle(self, node: Node) -> bool:
        """True for names of a module by which others get at the handle: imported, or a variable."""
        definition = self._sources.definition(node)
        return definition is None or definition.holds_handle

    def _handing(self, node: Node) -> Iterator[Node]:
        """The definitions with a place for a handle that a touching definition refers to, if it hands one on."""
        definition = self._sources.definition(node)
        if definition is not None and definition.hands_on:
            for used in self._sources.origins(self._sources.referred(node)):
                taker = self._sources.definition(used)
                if taker is not None and taker.takes_handle and not taker.is_scheduler:
                    yield used
