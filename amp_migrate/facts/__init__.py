"""What the code says: statements, names, objects, values, conditions, calls and paths of one module."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from amp_migrate.facts.calls import Calls
from amp_migrate.facts.conditions import Conditions
from amp_migrate.facts.elsewhere import Elsewhere, Nowhere
from amp_migrate.facts.identity import Identity
from amp_migrate.facts.names import Names
from amp_migrate.facts.objects import Objects
from amp_migrate.facts.tree import Tree
from amp_migrate.facts.values import Values


class Facts:
    """Everything known about one module, computed once per parse."""

    def __init__(self, module: cst.Module, elsewhere: Elsewhere | None = None) -> None:
        self.module = module
        self.elsewhere = elsewhere or Nowhere()
        self.tree = Tree(module)
        self.names = Names(self.tree)
        self.objects = Objects(self.tree, self.names)
        self.values = Values(self.tree, self.names, self.objects)
        self.identity = Identity(self.names, self.objects)
        self.conditions = Conditions(self.identity, self.objects, self.values)
        self.calls = Calls(self.tree, self.names, self.objects)

    def text(self, node: cst.CSTNode) -> str:
        """The source of a node, exactly as written."""
        return self.module.code_for_node(node)

    def quoted(self, value: str) -> str:
        """`value` as a string literal with the quotes that the file mostly uses."""
        return f"{self._quote}{value}{self._quote}"

    def line(self, node: cst.CSTNode) -> int:
        """The line (from 1) that a node starts on."""
        position = self._positions.get(node)
        return position.start.line if position is not None else 1

    @cached_property
    def _quote(self) -> str:
        code = self.module.code
        return "'" if code.count("'") > code.count('"') else '"'

    @cached_property
    def _positions(self) -> Mapping[cst.CSTNode, CodeRange]:
        # Positions cost twice the parse, so they are computed only when there is something to report.
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        return wrapper.resolve(PositionProvider)


__all__ = ["Facts"]
