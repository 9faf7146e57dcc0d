"""Tests of a name whose value is known: past `norm = -1`, `math.isfinite(norm)` is true. No code is run for it."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable

from amp_migrate.models.traits import named

_COMPARED: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: operator.lt,  # type: ignore[dict-item]
    ast.LtE: operator.le,  # type: ignore[dict-item]
    ast.Gt: operator.gt,  # type: ignore[dict-item]
    ast.GtE: operator.ge,  # type: ignore[dict-item]
}


class _Unknown(Exception):
    """The test reads something else."""


def value_of_test(test: str, name: str, value: object) -> bool | None:
    """Whether a test holds where a name has a value; None where the test reads anything else, or raises."""
    try:
        return bool(_value(ast.parse(test, mode="eval").body, name, value))
    except (_Unknown, SyntaxError, TypeError, ValueError, OverflowError):
        return None


def _value(node: ast.expr, name: str, value: object) -> object:
    match node:
        case ast.Name() | ast.Attribute() if ast.unparse(node) == name:
            return value
        case ast.Constant(value=constant):
            return constant
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, name, value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.BoolOp(op=kind, values=parts):
            found = [_value(part, name, value) for part in parts]
            return all(found) if isinstance(kind, ast.And) else any(found)
        case ast.Compare(left=left, ops=[kind], comparators=[right]) if type(kind) in _COMPARED:
            return _COMPARED[type(kind)](_value(left, name, value), _value(right, name, value))
        case ast.Call(func=ast.Attribute(value=ast.Name(), attr=called), args=[argument], keywords=[]):
            given = _value(argument, name, value)
            if called in named("overflow test") and isinstance(given, (int, float)):
                return getattr(math, called)(given)  # as those of numpy and torch
    raise _Unknown
