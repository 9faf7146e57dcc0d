"""Statements in another place, or once more."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from tests.structural.dependence import are_dependent, is_pure, names
from tests.structural.kinds import Change, kind
from tests.structural.roles import role
from tests.structural.syntax import JUMPS, LOOPS, Source, changed, is_docstring, rebuilt

_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign)


def _simple(node: ast.stmt) -> bool:
    return isinstance(node, _SIMPLE) and not is_docstring(node)


@kind
def dependent_statements_swapped(source: Source) -> Iterator[Change]:
    for block in source.blocks():
        for one, other in itertools.pairwise(block):
            if (
                _simple(one)
                and _simple(other)
                and ast.dump(one) != ast.dump(other)
                and are_dependent(source, one, other)
            ):
                yield Change(one, {one: other, other: one})


@kind
def moved_out_of_loop(source: Source) -> Iterator[Change]:
    """The last statement of a loop, behind it."""
    for loop in source.every(*LOOPS):
        last = loop.body[-1]
        if len(loop.body) > 1 and not loop.orelse and not _leaves(last) and _does_something(source, last):
            yield Change(last, {loop: [rebuilt(loop, {last: []}), last]})


@kind
def moved_before_loop(source: Source) -> Iterator[Change]:
    """The first statement of a loop, before it."""
    for loop in source.every(*LOOPS):
        first = loop.body[0]
        if len(loop.body) > 1 and _simple(first) and _does_something(source, first):
            yield Change(first, {loop: [first, rebuilt(loop, {first: []})]})


@kind
def moved_into_loop(source: Source) -> Iterator[Change]:
    """The statement behind a loop, to the end of its body."""
    for loop in source.every(*LOOPS):
        following = source.following(loop)[:1]
        if following and _simple(following[0]) and not loop.orelse and not isinstance(loop.body[-1], JUMPS):
            one = following[0]
            if _does_something(source, one):
                yield Change(one, {loop: changed(loop, body=[*loop.body, one]), one: []})


@kind
def moved_into_condition(source: Source) -> Iterator[Change]:
    """The statement behind an `if`, into it."""
    for node in source.every(ast.If):
        following = source.following(node)[:1]
        if following and _simple(following[0]) and not isinstance(node.body[-1], JUMPS):
            one = following[0]
            if _does_something(source, one):
                yield Change(one, {node: changed(node, body=[*node.body, one]), one: []})


@kind
def moved_out_of_condition(source: Source) -> Iterator[Change]:
    """The last statement of an `if`, behind it."""
    for node in source.every(ast.If):
        last = node.body[-1]
        if len(node.body) > 1 and _simple(last) and _does_something(source, last):
            yield Change(last, {node: [rebuilt(node, {last: []}), last]})


def _does_something(source: Source, node: ast.stmt) -> bool:
    """False for an assignment of what has the same value wherever it stands."""
    if not isinstance(node, ast.Assign) or not is_pure(node.value):
        return True
    return bool(names(node.value, ast.Load)) or any(isinstance(one, ast.Attribute) for one in node.targets)


def _leaves(node: ast.stmt) -> bool:
    return any(isinstance(one, (*JUMPS, ast.FunctionDef)) for one in ast.walk(node))


def _doubled(source: Source, *roles: str) -> Iterator[Change]:
    for node in source.every(ast.Expr):
        if role(source, node) in roles and not (
            roles == ("update",) and node.value.args
        ):  # to set a scale twice is no more
            yield Change(node, {node: [node, node]})


@kind
def scheduler_step_doubled(source: Source) -> Iterator[Change]:
    return _doubled(source, "scheduler step")


@kind
def step_doubled(source: Source) -> Iterator[Change]:
    return _doubled(source, "step", "bare step")


@kind
def update_doubled(source: Source) -> Iterator[Change]:
    return _doubled(source, "update") if source.has_scaler else iter(())


@kind
def unscale_doubled(source: Source) -> Iterator[Change]:
    return _doubled(source, "unscale_") if source.has_scaler else iter(())


@kind
def backward_doubled(source: Source) -> Iterator[Change]:
    return _doubled(source, "backward")


@kind
def clip_doubled(source: Source) -> Iterator[Change]:
    return _doubled(source, "clip")
