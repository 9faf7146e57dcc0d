"""Arms turned around, conditions named first, conjunctions nested."""

from __future__ import annotations

import ast
from random import Random

from tests.metamorphic.program import Program
from tests.metamorphic.scopes import blocks_of
from tests.metamorphic.walk import blocks, fresh


def turned(program: Program, random: Random) -> bool:
    """`if not c: A else: B` for `if c: B else: A`"""
    found = [node for node in program.nodes() if isinstance(node, ast.If) and node.orelse]
    for node in found:
        node.test, node.body, node.orelse = _negated(node.test), node.orelse, node.body
    return bool(found)


def with_empty_arm(program: Program, random: Random) -> bool:
    """`if not c: pass else: B` for `if c: B`"""
    found = [node for node in program.nodes() if isinstance(node, ast.If) and not node.orelse]
    for node in found:
        node.test, node.body, node.orelse = _negated(node.test), [ast.Pass()], node.body
    return bool(found)


def named(program: Program, random: Random) -> bool:
    """`is_so = c` before `if is_so:`"""
    done = False
    for place in blocks(program):
        if place.is_in_class_body:
            continue
        for node in [one for one in place.block if isinstance(one, ast.If) and not _is_settled(one)]:
            name = fresh(program, "is_so")
            before = ast.Assign([ast.Name(name, ast.Store())], node.test)
            node.test = ast.Name(name, ast.Load())
            place.block.insert(place.block.index(node), before)
            done = True
    return done


def nested(program: Program, random: Random) -> bool:
    """`if a: if b: B` for `if a and b: B`"""
    found = [
        node
        for node in program.nodes()
        if isinstance(node, ast.If)
        and not node.orelse
        and isinstance(node.test, ast.BoolOp)
        and isinstance(node.test.op, ast.And)
    ]
    for node in found:
        first, *rest = node.test.values  # type: ignore[attr-defined]
        for test in reversed(rest):
            node.body = [ast.If(test, node.body, [])]
        node.test = first
    return bool(found)


def expressions_turned(program: Program, random: Random) -> bool:
    """`b if not c else a` for `a if c else b`"""
    found = [node for node in program.nodes() if isinstance(node, ast.IfExp)]
    for node in found:
        node.test, node.body, node.orelse = _negated(node.test), node.orelse, node.body
    return bool(found)


def expressions_as_statements(program: Program, random: Random) -> bool:
    """`if c: x = a else: x = b` for `x = a if c else b`"""
    done = False
    for place in blocks(program):
        for index, node in enumerate(place.block):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.IfExp)
                and isinstance(node.targets[0], ast.Name)
            ):
                value = node.value
                arms: list[list[ast.stmt]] = [[ast.Assign(node.targets, one)] for one in (value.body, value.orelse)]
                place.block[index] = ast.If(value.test, *arms)
                done = True
    return done


def compared_the_other_way(program: Program, random: Random) -> bool:
    """`0 == step % 4` for `step % 4 == 0`, where evaluating both does nothing"""
    done = False
    for node in [one for one in program.nodes() if isinstance(one, ast.Compare) and len(one.ops) == 1]:
        is_pure = not any(isinstance(part, ast.Call) for part in ast.walk(node))
        if isinstance(node.ops[0], (ast.Eq, ast.NotEq)) and is_pure and not _is_main(node):
            node.left, node.comparators = node.comparators[0], [node.left]
            done = True
    return done


def elif_unfolded(program: Program, random: Random) -> bool:
    """A statement before the `if` of an `elif`, which makes it an `else` with a block."""
    done = False
    for place in blocks(program):
        for node in [one for one in place.block if isinstance(one, ast.If) and blocks_of(one)]:
            if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
                node.orelse.insert(0, ast.Pass())
                done = True
    return done


def _negated(test: ast.expr) -> ast.expr:
    is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    return test.operand if is_not else ast.UnaryOp(ast.Not(), test)  # type: ignore[attr-defined]


def _is_settled(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) or (isinstance(node.test, ast.Compare) and _is_main(node.test))


def _is_main(node: ast.Compare) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "__name__" for one in (node.left, *node.comparators))


REWRITES = {
    "arms turned around": turned,
    "an empty arm first": with_empty_arm,
    "named first": named,
    "conjunctions nested": nested,
    "expressions turned around": expressions_turned,
    "expressions as statements": expressions_as_statements,
    "compared the other way": compared_the_other_way,
    "elif with a statement before it": elif_unfolded,
}
