"""The files of a project: read once, parsed once and only when asked for, searched by words before that."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from amp_migrate.files.imports import module_name, split
from amp_migrate.files.read import read_if_there
from amp_migrate.units.definition import Definition
from amp_migrate.units.summary import Summary, summarise
from amp_migrate.units.tie import Tie

_NOTHING = Summary({}, {}, ())
_WORD = re.compile(rb"[A-Za-z_]\w*")
_INDIRECT = re.compile(rb"\bimport \*|\bgetattr\b|\b__dict__\b|\bvars\(")


class Node(NamedTuple):
    """A name of a module: a definition, or what the module has from an import. `""` is the module as a value."""

    file: Path
    name: str


_Names = dict[Node, list[str]]


class Sources:
    """The universe: the files, by their resolved paths, in the order of these."""

    def __init__(self, files: Iterable[Path], contents: Mapping[Path, bytes], tie: Tie) -> None:
        self.files = sorted({file.resolve() for file in files})
        self._known = frozenset(self.files)
        self._sources = dict(contents)
        self.tie = tie
        self._summaries: dict[Path, Summary] = {}
        self._referring: dict[tuple[Node, bool], list[Node]] = {}
        self._by_reference: dict[tuple[Path, bool], tuple[_Names, _Names]] = {}
        self._nodes_of: dict[frozenset[str], frozenset[Node]] = {}

    @property
    def root(self) -> str:
        """The folder that holds all files."""
        return os.path.commonpath([file.parent for file in self.files]) if self.files else os.sep

    def holding(self, words: re.Pattern[bytes]) -> list[Path]:
        """The files whose bytes match."""
        return [file for file in self.files if words.search(self.source(file))]

    def summary(self, file: Path) -> Summary:
        """The summary of a file; an empty one where it is not of the universe or does not parse."""
        if file not in self._summaries:
            try:
                self._summaries[file] = self._summarised(file) if file in self._known else _NOTHING
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._summaries[file] = _NOTHING
        return self._summaries[file]

    def _summarised(self, file: Path) -> Summary:
        return summarise(file, self.source(file), self.tie)

    def definition(self, node: Node) -> Definition | None:
        """The definition behind a name; None for what is imported or unknown."""
        return self.summary(node.file).definitions.get(node.name)

    def referred(self, node: Node) -> Iterator[Node]:
        """The names of local modules that a definition refers to, one step far; for an imported name, its origin."""
        summary = self.summary(node.file)
        if node.name in summary.definitions:
            yield from self._nodes(summary.definitions[node.name].references)
        elif node.name in summary.exports:
            yield from self._nodes(summary.exports[node.name])
        else:
            for star in summary.stars:
                module = split(star)
                if module is not None:
                    yield Node(module[0], node.name)

    def origins(self, names: Iterable[Node]) -> Iterator[Node]:
        """The definitions behind names that may be imported from elsewhere, each once."""
        waiting = list(names)
        seen: set[Node] = set()
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if self.definition(node) is not None:
                yield node
            else:
                waiting += self.referred(node)

    def passing(self, names: Iterable[Node]) -> Iterator[Node]:
        """The names of other modules between some names and the definitions behind them, imported from file to file."""
        for name in names:
            yield from self._way(name, frozenset())

    def _way(self, node: Node, seen: frozenset[Node]) -> list[Node]:
        """A name and those that it comes from, up to its definition; nothing where there is none."""
        if self.definition(node) is not None:
            return [node]
        ways = [self._way(origin, seen | {node}) for origin in self.referred(node) if origin not in seen]
        return [node, *(one for way in ways for one in way)] if any(ways) else []

    def referring(self, node: Node, *, loosely: bool = False) -> Sequence[Node]:
        """Everything that refers to a name of a local module, one step far.

        Loosely, annotations count as well, and so does a package used as a value, for the names that it passes on.
        """
        if (node, loosely) not in self._referring:  # each attempt to migrate a unit asks again
            self._referring[node, loosely] = list(self._found_referring(node, loosely=loosely))
        return self._referring[node, loosely]

    def _found_referring(self, node: Node, *, loosely: bool) -> Iterator[Node]:
        wanted = {node}
        if loosely or self.definition(node) is not None:
            wanted.add(Node(node.file, ""))
        for file in self._mentioning(node):
            summary = self.summary(file)
            definitions, exports = self._referring_in(file, loosely=loosely)
            found = {name for one in wanted for name in definitions.get(one, ())}
            yield from (Node(file, name) for name in summary.definitions if found and name in found)
            yield from (Node(file, name) for name in exports.get(node, ()))
            if node.name not in summary.definitions and node.name not in summary.exports:
                if Node(node.file, "") in self._nodes(frozenset(summary.stars)):
                    yield Node(file, node.name)

    def _referring_in(self, file: Path, *, loosely: bool) -> tuple[_Names, _Names]:
        """The definitions of a file, and its imported names, by what they refer to."""
        if (file, loosely) not in self._by_reference:
            summary = self.summary(file)
            definitions: _Names = {}
            for name, definition in summary.definitions.items():
                said = definition.references | definition.annotations if loosely else definition.references
                for one in self._nodes(said):
                    definitions.setdefault(one, []).append(name)
            exports: _Names = {}
            for name, origins in summary.exports.items():
                for one in self._nodes(origins):
                    exports.setdefault(one, []).append(name)
            self._by_reference[file, loosely] = definitions, exports
        return self._by_reference[file, loosely]

    def mentions(self, file: Path, name: str) -> bool:
        """True where a name stands in the bytes of a file."""
        return file in self._holding_word(name)

    def _mentioning(self, node: Node) -> list[Path]:
        """The files whose bytes can refer to a name: it stands in them, and so does its module's."""
        module = Path(module_name(node.file)).name
        by_module = self._holding_word(module)
        if node.file.name == "__init__.py":
            below = os.path.join(node.file.parent, "")
            by_module = by_module | {file for file in self.files if str(file).startswith(below)}
        return sorted(by_module & (self._holding_word(node.name) | self._indirect) | {node.file})

    def _holding_word(self, word: str) -> set[Path]:
        return self._files_by_word.get(os.fsencode(word), set())

    @cached_property
    def _files_by_word(self) -> dict[bytes, set[Path]]:
        files: dict[bytes, set[Path]] = {}
        for file in self.files:
            for word in set(_WORD.findall(self.source(file))):
                files.setdefault(word, set()).add(file)
        return files

    @cached_property
    def _indirect(self) -> set[Path]:
        """The files that can refer to a name without holding it."""
        return set(self.holding(_INDIRECT))

    def _nodes(self, names: frozenset[str]) -> frozenset[Node]:
        if names not in self._nodes_of:
            self._nodes_of[names] = frozenset(
                self._meant(node) for name in names if (node := node_of(name)) is not None
            )
        return self._nodes_of[names]

    def _meant(self, node: Node) -> Node:
        """After `from .train import train` in a package, its `train` is the function, not the module."""
        package = Node(node.file.parent / "__init__.py", node.file.stem)
        if node.name or package.file == node.file or package.file not in self._known:
            return node
        summary = self.summary(package.file)
        exported = summary.exports.get(package.name, frozenset()) - {module_name(node.file)}
        return package if exported or package.name in summary.definitions else node

    def source(self, file: Path) -> bytes:
        """The content of a file, nothing where it cannot be read."""
        if file not in self._sources:
            self._sources[file] = read_if_there(file)
        return self._sources[file]


@cache
def node_of(canonical: str) -> Node | None:
    """The name of a local module behind a canonical name; None for other packages."""
    found = split(canonical)
    if found is None:
        return None
    file, rest = found
    name = rest.partition(".")[0]
    return Node(file, "" if name == "__dict__" else name)
