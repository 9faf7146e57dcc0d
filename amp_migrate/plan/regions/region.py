"""A run of statements under autocast."""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts.tree import Block, Function, Statement
from amp_migrate.plan.model import Backward, Recognition


@dataclasses.dataclass(eq=False)
class Region:
    """The statements `first` to `last` of one block, to be run under autocast.

    `hoisted` is a loss expression that stands in the source form's own call and has to be computed inside;
    with `only_hoisted`, there is nothing else in the region, and it goes before `first`.
    """

    block: Block
    first: Statement
    last: Statement
    hoisted: Backward | None = None
    only_hoisted: bool = False

    @property
    def function(self) -> Function:
        return self.block.function

    def statements(self) -> list[Statement]:
        return self.block.statements[self.first.index : self.last.index + 1]

    def covers(self, statement: Statement) -> bool:
        return any(statement.inside(inner) for inner in self.statements())


def has_no_casts(statement: Statement, found: Recognition) -> bool:
    """True for the `with` of the source form in which its casts are off."""
    node = statement.node
    return isinstance(node, cst.With) and any(item.item in found.no_casts for item in node.items)
