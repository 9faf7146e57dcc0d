"""Files that a unit can do without, but that make its migration better: evaluation, and options of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from amp_migrate.units.sources import Node, Sources
from amp_migrate.units.summary import MODULE


def evaluations(sources: Sources, unit: Iterable[Node]) -> Iterator[Node]:
    """Functions outside that the definitions of a unit refer to, and that run a model without gradients."""
    for node in _referred(sources, unit):
        definition = sources.definition(node)
        if definition is not None and definition.evaluates:
            yield node


def options(sources: Sources, nodes: list[Node]) -> Iterator[Node]:
    """What declares options of the command line among some definitions, and what they come to use.

    It is followed through nothing but files that speak of such declarations.
    """
    seen: set[Node] = set()
    waiting = [*nodes, *_referred(sources, nodes)]
    while waiting:
        node = waiting.pop()
        definition = sources.definition(node)
        if node in seen or definition is None or not sources.mentions(node.file, "add_argument"):
            continue
        seen.add(node)
        if definition.declares_options or (definition.parses_options and _declares(sources, node.file)):
            yield node
        waiting += _referred(sources, [node])


def _declares(sources: Sources, file: Path) -> bool:
    code = sources.definition(Node(file, MODULE))
    return code is not None and code.declares_options


def _referred(sources: Sources, nodes: Iterable[Node]) -> list[Node]:
    """The definitions that some definitions refer to, in path order."""
    return sorted({origin for node in nodes for origin in sources.origins(sources.referred(node))})
