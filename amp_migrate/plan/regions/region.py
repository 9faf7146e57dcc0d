"""A run of statements under autocast."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

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


class UnderAutocast:
    """Whether a statement runs in a region, or in a function with statements that regions reach."""

    def __init__(self, regions: Collection[Region], reached: Iterable[Statement]) -> None:
        inside = (statement for region in regions for statement in region.statements())
        self._statements = frozenset(inner for statement in inside for inner in statement.descendants())
        holding = {region.function for region in regions}
        self._functions = frozenset(one.function for one in reached if one.function not in holding)

    def __call__(self, statements: Sequence[Statement]) -> bool:
        """The same of the last statement, to which the calls in the others have led, outermost first."""
        return statements[0].function in self._functions or not self._statements.isdisjoint(statements)


def has_no_casts(statement: Statement, found: Recognition) -> bool:
    """True for the `with` of the source form in which its casts are off."""
    node = statement.node
    return isinstance(node, cst.With) and any(item.item in found.no_casts for item in node.items)
