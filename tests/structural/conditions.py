"""Conditions and their arms."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.structural.kinds import Change, kind
from tests.structural.roles import is_cast
from tests.structural.syntax import Source, changed, negation, without

_OTHER = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@kind
def conditional_dropped(source: Source) -> Iterator[Change]:
    """An `if` with all that is in it."""
    for node in source.every(ast.If):
        if not all(map(is_cast, [*node.body, *node.orelse])):
            yield Change(node, {node: []})


@kind
def guard_dropped(source: Source) -> Iterator[Change]:
    """The body of an `if` runs in any case."""
    return (Change(node, {node: node.body}) for node in source.every(ast.If))


@kind
def guard_negated(source: Source) -> Iterator[Change]:
    return (Change(node, {node.test: negation(node.test)}) for node in source.every(ast.If))


@kind
def arm_dropped(source: Source) -> Iterator[Change]:
    """The first arm of an `if` that has another one."""
    for node in source.every(ast.If):
        if node.orelse:
            yield Change(node, {node: changed(node, body=[ast.Pass()])})


@kind
def else_dropped(source: Source) -> Iterator[Change]:
    return (Change(node, {node: changed(node, orelse=[])}) for node in source.every(ast.If) if node.orelse)


@kind
def arms_swapped(source: Source) -> Iterator[Change]:
    for node in source.every(ast.If):
        if node.orelse and list(map(ast.dump, node.body)) != list(map(ast.dump, node.orelse)):
            yield Change(node, {node: changed(node, body=node.orelse, orelse=node.body)})


@kind
def choice_swapped(source: Source) -> Iterator[Change]:
    """`b if test else a`."""
    for node in source.every(ast.IfExp):
        yield Change(node, {node: changed(node, body=node.orelse, orelse=node.body)})


@kind
def condition_lost_a_term(source: Source) -> Iterator[Change]:
    for node in source.every(ast.BoolOp):
        for at, one in enumerate(node.values):
            rest = without(node.values, at)
            yield Change(one, {node: rest[0] if len(rest) == 1 else changed(node, values=rest)})


@kind
def and_or_exchanged(source: Source) -> Iterator[Change]:
    for node in source.every(ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield Change(node, {node: changed(node, op=other)})


@kind
def comparison_changed(source: Source) -> Iterator[Change]:
    for node in source.every(ast.Compare):
        if type(node.ops[0]) in _OTHER and ast.unparse(node.left) != "__name__":
            yield Change(node, {node: changed(node, ops=[_OTHER[type(node.ops[0])](), *node.ops[1:]])})


@kind
def negation_dropped(source: Source) -> Iterator[Change]:
    for node in source.every(ast.UnaryOp):
        if isinstance(node.op, ast.Not):
            yield Change(node, {node: node.operand})


@kind
def loop_runs_once(source: Source) -> Iterator[Change]:
    """`while` becomes `if`."""
    for node in source.every(ast.While):
        if not any(isinstance(one, (ast.Break, ast.Continue)) for one in ast.walk(node)):
            yield Change(node, {node: ast.If(node.test, node.body, node.orelse)})
