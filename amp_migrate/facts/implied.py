"""What tests say: of a place that they lead to, and of their parts."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts.tree import Statement


def implied(test: cst.BaseExpression, value: bool) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """A test with its value, and those operands that have a value then: both of an `and` that is true."""
    yield test, value
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        yield from implied(test.expression, not value)
    elif isinstance(test, cst.NamedExpr):
        yield from implied(test.value, value)
    elif isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And) is value:
        yield from implied(test.left, value)
        yield from implied(test.right, value)


def tested(statement: Statement) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """The tests around a statement, and those before it that leave, with the answers that lead to it."""
    for inner in statement.path():
        outer = inner.block.owner
        if outer is not None and isinstance(outer.node, cst.If):
            yield outer.node.test, inner.block.arm == "body"
        for before in inner.block.statements[: inner.index]:
            if isinstance(before.node, cst.If) and before.blocks[0].statements[-1].leaves:
                yield before.node.test, False
