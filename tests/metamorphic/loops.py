"""Loops that unpack inside, count, jump early."""

from __future__ import annotations

import ast
from random import Random

from tests.metamorphic.program import Program
from tests.metamorphic.walk import blocks, fresh


def unpacking_inside(program: Program, random: Random) -> bool:
    """`for batch in loader: x, y = batch`"""
    found = [node for node in program.nodes() if isinstance(node, ast.For) and isinstance(node.target, ast.Tuple)]
    for node in found:
        name = fresh(program, "item")
        node.body.insert(0, ast.Assign([node.target], ast.Name(name, ast.Load())))
        node.target = ast.Name(name, ast.Store())
    return bool(found)


def counting(program: Program, random: Random) -> bool:
    """`for _, x in enumerate(loader)`"""
    found = [node for node in program.nodes() if isinstance(node, ast.For)]
    for node in found:
        name = fresh(program, "count")
        node.target = ast.Tuple([ast.Name(name, ast.Store()), node.target], ast.Store())
        node.iter = ast.Call(ast.Name("enumerate", ast.Load()), [node.iter], [])
    return bool(found)


def early_continue(program: Program, random: Random) -> bool:
    """`if not c: continue` and what stood under `if c:` at the end of a loop"""
    done = False
    for node in [one for one in program.nodes() if isinstance(one, (ast.For, ast.While))]:
        last = node.body[-1]
        if isinstance(last, ast.If) and not last.orelse:
            node.body[-1:] = [ast.If(ast.UnaryOp(ast.Not(), last.test), [ast.Continue()], []), *last.body]
            done = True
        elif isinstance(last, ast.If):
            node.body[-1:] = [ast.If(last.test, [*last.body, ast.Continue()], []), *last.orelse]
            done = True
    return done


def early_return(program: Program, random: Random) -> bool:
    """`if not c: return` and what stood under `if c:` at the end of a function"""
    done = False
    for node in [one for one in program.nodes() if isinstance(one, ast.FunctionDef)]:
        last = node.body[-1]
        if isinstance(last, ast.If) and not last.orelse:
            node.body[-1:] = [ast.If(ast.UnaryOp(ast.Not(), last.test), [ast.Return()], []), *last.body]
            done = True
    return done


def by_while(program: Program, random: Random) -> bool:
    """`while epoch < epochs:` for `for epoch in range(epochs)`, in whose body nothing jumps or binds `epoch`"""
    done = False
    for place in blocks(program):
        for node in [one for one in place.block if isinstance(one, ast.For) and not one.orelse]:
            iterated, target = node.iter, node.target
            is_range = (
                isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) and iterated.func.id == "range"
            )
            if not is_range or len(iterated.args) != 1 or not isinstance(target, ast.Name):  # type: ignore[attr-defined]
                continue
            inside = [one for statement in node.body for one in ast.walk(statement)]
            rebound = any(
                isinstance(one, ast.Name) and one.id == target.id and not isinstance(one.ctx, ast.Load)
                for one in inside
            )
            if rebound or any(
                isinstance(one, (ast.Continue, ast.Break, ast.Lambda, ast.FunctionDef)) for one in inside
            ):
                continue
            end, count, index = fresh(program, "end"), fresh(program, "count"), place.block.index(node)
            test = ast.Compare(ast.Name(count, ast.Load()), [ast.Lt()], [ast.Name(end, ast.Load())])
            first = ast.Assign([target], ast.Name(count, ast.Load()))
            more = ast.AugAssign(ast.Name(count, ast.Store()), ast.Add(), ast.Constant(1))
            place.block[index : index + 1] = [
                ast.Assign([ast.Name(end, ast.Store())], iterated.args[0]),  # type: ignore[attr-defined]
                ast.Assign([ast.Name(count, ast.Store())], ast.Constant(0)),
                ast.While(test, [first, *node.body, more], []),
            ]
            done = True
    return done


REWRITES = {
    "unpacking inside": unpacking_inside,
    "counting": counting,
    "an early continue": early_continue,
    "an early return": early_return,
    "by while": by_while,
}
