"""Tests of a name or an attribute whose value is known: past `norm = -1`, `math.isfinite(norm)` is true, and where
`opt.task == "depth"` is, `opt.task != "depth"` is not. No code is run for it.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from functools import cache

from amp_migrate.models.traits import named

_COMPARED: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: lambda a, b: _is(a, b),
    ast.IsNot: lambda a, b: not _is(a, b),
    ast.Lt: operator.lt,  # type: ignore[dict-item]
    ast.LtE: operator.le,  # type: ignore[dict-item]
    ast.Gt: operator.gt,  # type: ignore[dict-item]
    ast.GtE: operator.ge,  # type: ignore[dict-item]
    ast.In: lambda a, b: a in b,  # type: ignore[operator]
    ast.NotIn: lambda a, b: a not in b,  # type: ignore[operator]
}
_EQUAL = {ast.Eq: True, ast.Is: True, ast.In: True, ast.NotEq: False, ast.IsNot: False, ast.NotIn: False}
_OF_A_PLACE = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.expr_context)


class _Unknown(Exception):
    """The test reads something else."""


def value_of_test(test: str, name: str, value: object) -> bool | None:
    """Whether a test holds where a name has a value; None where the test reads anything else, or raises."""
    try:
        return bool(_value(ast.parse(test, mode="eval").body, name, value))
    except (_Unknown, SyntaxError, TypeError, ValueError, OverflowError):
        return None


@cache
def values_where(test: str, holds: bool) -> tuple[str, tuple[object, ...]] | None:
    """What has one of some constants where a test is true, or false: `task` and "depth" for `task == "depth"`."""
    try:
        return _values_where(ast.parse(test, mode="eval").body, holds)
    except (_Unknown, SyntaxError, TypeError, ValueError):
        return None


def _values_where(node: ast.expr, holds: bool) -> tuple[str, tuple[object, ...]]:
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _values_where(operand, not holds)
        case ast.BoolOp(op=kind, values=parts) if isinstance(kind, ast.Or) is holds:
            found = [_values_where(part, holds) for part in parts]
            if len({name for name, _ in found}) == 1:
                return found[0][0], tuple(value for _, values in found for value in values)
        case ast.Compare(left=left, ops=[kind], comparators=[right]) if _EQUAL.get(type(kind)) is holds:
            is_choice = isinstance(kind, (ast.In, ast.NotIn))
            if isinstance(left, ast.Constant) and not is_choice:
                left, right = right, left
            value = _value(right, "", None)
            is_place = not isinstance(left, ast.Constant) and all(
                isinstance(one, _OF_A_PLACE) for one in ast.walk(left)
            )
            if is_place and isinstance(value, tuple) is is_choice:
                return ast.unparse(left), value if isinstance(value, tuple) else (value,)
    raise _Unknown


def _is(one: object, other: object) -> bool:
    if one == other and type(one) is not type(other):
        raise _Unknown  # `x == 1` does not tell whether `x is True`
    return one == other


def _value(node: ast.expr, name: str, value: object) -> object:
    match node:
        case ast.Name() | ast.Attribute() | ast.Subscript() if ast.unparse(node) == name:
            return value
        case ast.Constant(value=constant):
            return constant
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return tuple(_value(part, name, value) for part in parts)
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
