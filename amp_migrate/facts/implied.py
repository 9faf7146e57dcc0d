"""What follows from the value of a test for its parts."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst


def implied(test: cst.BaseExpression, value: bool) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """A test with its value, and those operands that have a value then: both of an `and` that is true."""
    yield test, value
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        yield from implied(test.expression, not value)
    elif isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And) is value:
        yield from implied(test.left, value)
        yield from implied(test.right, value)
