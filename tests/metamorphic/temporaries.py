"""Names for what had none, and values in the place of names; several assignments as one."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from random import Random

from tests.metamorphic.program import Program
from tests.metamorphic.scopes import bound, captured, read
from tests.metamorphic.walk import BlockPlace, blocks, fresh, is_plain_name


def results_named(program: Program, random: Random) -> bool:
    """`result = model(x)` before `return result`"""
    done = False
    for place in blocks(program):
        for node in [one for one in place.block if isinstance(one, ast.Return)]:
            if node.value is not None and not isinstance(node.value, ast.Name):
                name = fresh(program, "result")
                place.block.insert(place.block.index(node), _assign(name, node.value))
                node.value = ast.Name(name, ast.Load())
                done = True
    return done


def arguments_named(program: Program, random: Random) -> bool:
    """`value = model(x)` before `loss = criterion(value, y)`"""
    done = False
    for place in _blocks(program):
        for statement in [*place.block]:
            call = _called(statement)
            if call is None or not call.args or not isinstance(call.args[0], (ast.Call, ast.BinOp, ast.Subscript)):
                continue
            name = fresh(program, "value")
            place.block.insert(place.block.index(statement), _assign(name, call.args[0]))
            call.args[0] = ast.Name(name, ast.Load())
            done = True
    return done


def receivers_named(program: Program, random: Random) -> bool:
    """`thing = loss` before `thing.backward()`, `thing = optimizer` before `thing.step()`"""
    done = False
    for place in _blocks(program):
        for statement in [*place.block]:
            call = _called(statement)
            method = call.func if call is not None and isinstance(call.func, ast.Attribute) else None
            if (
                method is None
                or method.attr not in ("backward", "step", "zero_grad")
                or not is_plain_name(method.value)
            ):
                continue
            name = fresh(program, "thing")
            place.block.insert(place.block.index(statement), _assign(name, method.value))
            method.value = ast.Name(name, ast.Load())
            done = True
    return done


def methods_named(program: Program, random: Random) -> bool:
    """`act = optimizer.step` before `act()`"""
    done = False
    for place in _blocks(program):
        for statement in [*place.block]:
            call = _called(statement)
            if call is not None and isinstance(call.func, ast.Attribute) and call.func.attr in ("step", "backward"):
                name = fresh(program, "act")
                place.block.insert(place.block.index(statement), _assign(name, call.func))
                call.func = ast.Name(name, ast.Load())
                done = True
    return done


def values_in_place(program: Program, random: Random) -> bool:
    """`loss = criterion(model(x), y)` for `out = model(x)` and `loss = criterion(out, y)`, where nothing else has `out`"""
    done = False
    uses = Counter(node.id for node in program.nodes() if isinstance(node, ast.Name))
    for place in _blocks(program):
        for statement, following in _pairs(place.block):
            name, call = _name(statement), _called(following)
            if name is None or uses[name] != 2 or statement not in place.block:
                continue
            if call is not None and call.args and is_plain_name(call.func) and _is(call.args[0], name):
                call.args[0] = statement.value  # type: ignore[attr-defined]
            elif call is not None and isinstance(call.func, ast.Attribute) and _is(call.func.value, name):
                call.func.value = statement.value  # type: ignore[attr-defined]
            elif isinstance(following, ast.Return) and _is(following.value, name):
                following.value = statement.value  # type: ignore[attr-defined]
            else:
                continue
            place.block.remove(statement)
            done = True
    return done


def as_tuples(program: Program, random: Random) -> bool:
    """`model, optimizer = make(), SGD(...)` for two assignments that do not look at each other"""
    done = False
    for place in blocks(program):
        for statement, following in _pairs(place.block):
            one, other = _name(statement), _name(following)
            if one is None or other is None or one == other or one in read(following) or statement not in place.block:
                continue
            if (
                isinstance(following, ast.Assign)
                and isinstance(following.value, ast.Call)
                and one in _read_by_calls(program)
            ):
                continue
            values = [statement.value, following.value]  # type: ignore[attr-defined]
            targets: list[ast.expr] = [ast.Name(one, ast.Store()), ast.Name(other, ast.Store())]
            place.block[place.block.index(following)] = ast.Assign(
                [ast.Tuple(targets, ast.Store())], ast.Tuple(values, ast.Load())
            )
            place.block.remove(statement)
            done = True
    return done


def tuples_apart(program: Program, random: Random) -> bool:
    """`pair = amp.initialize(...)`, `model = pair[0]`, `optimizer = pair[1]`, where what is unpacked is no iterator"""
    done = False
    for place in _blocks(program):
        for node in [one for one in place.block if isinstance(one, ast.Assign)]:
            target, call = node.targets[0], node.value
            is_setup = isinstance(call, ast.Call) and ast.unparse(call.func).endswith("initialize")
            if not isinstance(target, ast.Tuple) or not is_setup:
                continue
            name, index = fresh(program, "pair"), place.block.index(node)
            parts: list[ast.stmt] = [
                ast.Assign([one], ast.Subscript(ast.Name(name, ast.Load()), ast.Constant(number), ast.Load()))
                for number, one in enumerate(target.elts)
            ]
            place.block[index : index + 1] = [_assign(name, call), *parts]
            done = True
    return done


def walrus(program: Program, random: Random) -> bool:
    """`loss = criterion((out := model(x)), y)` for `out = model(x)` and `loss = criterion(out, y)`"""
    done = False
    for place in _blocks(program):
        declared = {name for node in ast.walk(place.tree) if isinstance(node, ast.Global) for name in node.names}
        for statement, following in _pairs(place.block):
            name, call = _name(statement), _called(following)
            if name is None or call is None or name in declared or statement not in place.block:
                continue
            if name in bound(following):
                continue
            binding = ast.NamedExpr(ast.Name(name, ast.Store()), statement.value)  # type: ignore[attr-defined]
            if call.args and is_plain_name(call.func) and _is(call.args[0], name) and not _is(call.func, name):
                call.args[0] = binding
            elif isinstance(call.func, ast.Attribute) and _is(call.func.value, name):
                call.func.value = binding
            else:
                continue
            place.block.remove(statement)
            done = True
    return done


def walrus_in_conditions(program: Program, random: Random) -> bool:
    """`if (is_last := i == 3):` for `if i == 3:`"""
    found = [node for node in program.nodes() if isinstance(node, ast.If) and isinstance(node.test, ast.Compare)]
    found = [node for node in found if "__name__" not in read(node.test)]
    chosen = [node for place in _blocks(program) for node in place.block if node in found]
    for node in chosen:
        name = fresh(program, "is_so")
        node.test = ast.NamedExpr(ast.Name(name, ast.Store()), node.test)
    return bool(chosen)


def _blocks(program: Program) -> Iterator[BlockPlace]:
    return (place for place in blocks(program) if not place.is_in_class_body)


def _pairs(block: list[ast.stmt]) -> list[tuple[ast.stmt, ast.stmt]]:
    return list(pairwise(block))


def _called(statement: ast.stmt) -> ast.Call | None:
    """The call that a statement is about, whose function is looked up before anything else is done."""
    value = statement.value if isinstance(statement, (ast.Assign, ast.Expr, ast.Return)) else None
    if not isinstance(value, ast.Call):
        return None
    return value if isinstance(value.func, ast.Attribute) or is_plain_name(value.func) else None


def _name(statement: ast.stmt) -> str | None:
    is_simple = isinstance(statement, ast.Assign) and len(statement.targets) == 1
    target = statement.targets[0] if is_simple else None  # type: ignore[attr-defined]
    return target.id if isinstance(target, ast.Name) else None


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _is(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _read_by_calls(program: Program) -> set[str]:
    """The names that functions read from outside of themselves: a call may look at them."""
    return {name for tree in program.files.values() for name in captured(tree)}


REWRITES = {
    "results named": results_named,
    "arguments named": arguments_named,
    "receivers named": receivers_named,
    "methods named": methods_named,
    "values in place": values_in_place,
    "assignments as tuples": as_tuples,
    "tuples taken apart": tuples_apart,
    "walrus": walrus,
    "walrus in conditions": walrus_in_conditions,
}
