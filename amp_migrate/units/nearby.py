"""Which definitions have to do with a common handle, each by itself: whatever has a place for an optimizer, or trains.

Optimizers are everywhere: to follow each through a whole repository (`reach.py`) would make one unit of all its
scripts, and read every file for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from amp_migrate.units.definition import Definition
from amp_migrate.units.sources import Node, Sources


class Nearby:
    """Asked file by file; nothing else is read."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def definitions(self, file: Path) -> list[Node]:
        """The definitions of a file that have to do with a handle, its code on module level included."""
        return [Node(file, name) for name, one in self._sources.summary(file).definitions.items() if _concerns(one)]

    def may_concern(self, node: Node) -> bool:
        """True for every definition: a training comes to its models, too."""
        return True

    def is_whole(self, *files: Path) -> bool:
        """True for files that hold both halves of a training."""
        called = set(self._called(files))
        return all(any(half.fullmatch(name) for name in called) for half in self._sources.tie.halves)

    def _called(self, files: tuple[Path, ...]) -> Iterator[str]:
        for file in files:
            for definition in self._sources.summary(file).definitions.values():
                yield from definition.called


def _concerns(definition: Definition) -> bool:
    return definition.uses_handle or definition.takes_handle or definition.hands_on or definition.trains
