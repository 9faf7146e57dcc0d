"""New syntax: copies with other fields, and small expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Node = TypeVar("Node", bound=ast.AST)
_fields: dict[type[ast.AST], tuple[str, ...]] = {}
_handlers: dict[tuple[type, type[ast.AST]], Callable[[Any, Any], Any] | None] = {}
_MARKS = frozenset("ctx id attr kind op ops level module conversion simple is_async type_comment type_ignores".split())


def changed(node: Node, **fields: Any) -> Node:
    """A copy of a node with other fields."""
    new = type(node).__new__(type(node))
    vars(new).update(vars(node), **fields)
    return new


def at(place: ast.AST, node: Node) -> Node:
    """A new node on the line of another one."""
    return ast.copy_location(node, place)


def name(text: str) -> ast.Name:
    """A name; one in angle brackets stands for what no program can name."""
    return ast.Name(text, ast.Load())


def call(func: ast.expr, *args: ast.expr) -> ast.Call:
    """`func(*args)`."""
    return ast.Call(func, list(args), [])


def method(value: ast.expr, attr: str) -> ast.Call:
    """`value.attr()`."""
    return call(ast.Attribute(value, attr, ast.Load()))


def is_none(node: ast.expr | None) -> bool:
    """True for `None` as it is written."""
    return isinstance(node, ast.Constant) and node.value is None


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it as `ast.walk` has them, but for what only marks a node, and in the order of the text."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        if _fields_of(type(one)):
            waiting += reversed(children(one))


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of node that may hold others."""
    if kind not in _fields:
        _fields[kind] = () if kind is ast.Constant else tuple(one for one in kind._fields if one not in _MARKS)
    return _fields[kind]


def children(node: ast.AST) -> list[ast.AST]:
    """What stands directly in a node, but for what only marks it, in the order of the text."""
    found: list[ast.AST] = []
    for field in _fields_of(type(node)):
        value = getattr(node, field, None)
        if isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def handler(visitor: type, kind: type[ast.AST]) -> Callable[[Any, Any], Any] | None:
    """The method of a class for a kind of node, `_Call` for calls; None where it has none."""
    if (visitor, kind) not in _handlers:
        _handlers[visitor, kind] = getattr(visitor, f"_{kind.__name__}", None)
    return _handlers[visitor, kind]


def same(one: Any, other: Any) -> bool:
    """True for the same syntax, wherever it stands and whether it is read or written."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, ast.AST):
        fields = [field for field in one._fields if field not in ("ctx", "type_comment", "kind")]
        return all(same(getattr(one, field, None), getattr(other, field, None)) for field in fields)
    return bool(one == other)
