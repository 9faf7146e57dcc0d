"""A loss, a step, a whole loop moved: into a function, a method, a static or class method, a nested function, a `partial`,
another file; a loss into a lambda.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from tests.metamorphic.extraction import Piece, piece
from tests.metamorphic.program import ALONE, Program
from tests.metamorphic.scopes import FUNCTIONS, read
from tests.metamorphic.walk import BlockPlace, blocks, fresh, start_of

Finder = Callable[[Program], Iterator[Piece]]
Mover = Callable[[Program, Piece], bool]


def losses(program: Program) -> Iterator[Piece]:
    """The values of what `backward` is called on, or what is scaled for it."""
    names = _trained(program)
    for place in blocks(program):
        for index, statement in enumerate(place.block):
            is_loss = isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) in names
            if is_loss and isinstance(statement.value, (ast.Call, ast.BinOp)):  # type: ignore[attr-defined]
                found = piece(program, place, index, index + 1, statement.value)  # type: ignore[attr-defined]
                if found is not None:
                    yield found


def steps(program: Program) -> Iterator[Piece]:
    """What an iteration does from its first statement or the forward to its end, or as much of that as can be moved."""
    for place in blocks(program):
        if not any(_trains(one) for one in place.block) or not place.loops or _loops_inside(place):
            continue
        for start in range(len(place.block)):
            found = piece(program, place, start, len(place.block))
            if found is not None and len(found.body) > 2:
                yield found
                break


def loops(program: Program) -> Iterator[Piece]:
    """The loops that train, the outermost first."""
    for place in blocks(program):
        for index, statement in enumerate(place.block):
            if isinstance(statement, (ast.For, ast.While)) and not place.loops and _trains(statement):
                found = piece(program, place, index, index + 1)
                if found is not None:
                    yield found


def into_function(program: Program, found: Piece) -> bool:
    name = fresh(program, "part")
    _before(found, found.function(name, found.given))
    found.replace(_call(ast.Name(name, ast.Load()), found.given))
    return True


def into_lambda(program: Program, found: Piece) -> bool:
    assert found.value is not None
    name = fresh(program, "part")
    arguments = ast.arguments([], [ast.arg(one) for one in found.given], None, [], [], None, [])
    bound = ast.Assign([ast.Name(name, ast.Store())], ast.Lambda(arguments, found.value))
    _before(found, bound)
    found.replace(_call(ast.Name(name, ast.Load()), found.given))
    return True


def into_nested_function(program: Program, found: Piece) -> bool:
    """A function in the function, or at the place itself in a module: what it needs it takes from around it."""
    if found.place.function is None or set(found.made) & set(found.given):
        return False
    name = fresh(program, "part")
    function = found.function(name, ())
    if _binds_given(function, found):
        return False
    found.replace(_call(ast.Name(name, ast.Load()), ()))
    found.place.block.insert(found.start, function)
    return True


def into_method(program: Program, found: Piece) -> bool:
    cls = _class_of(found)
    if cls is None or "self" not in found.given:
        return False
    name = fresh(program, "part")
    others = tuple(one for one in found.given if one != "self")
    cls.body.append(found.function(name, ("self", *others)))
    found.replace(_call(ast.Attribute(ast.Name("self", ast.Load()), name, ast.Load()), others))
    return True


def into_static_method(program: Program, found: Piece) -> bool:
    return _into_class(program, found, "staticmethod", ())


def into_class_method(program: Program, found: Piece) -> bool:
    return _into_class(program, found, "classmethod", ("cls",))


def into_partial(program: Program, found: Piece) -> bool:
    """`part = partial(part_of, model)` and `part(x)`"""
    if not found.given:
        return False
    name, bound = fresh(program, "part_of"), fresh(program, "part")
    _before(found, found.function(name, found.given))
    first, rest = found.given[:1], found.given[1:]
    made = _call(ast.Name("partial", ast.Load()), (name, *first))
    found.replace(_call(ast.Name(bound, ast.Load()), rest))
    found.place.block.insert(found.start, ast.Assign([ast.Name(bound, ast.Store())], made))
    tree = found.place.tree
    tree.body.insert(start_of(tree), ast.ImportFrom("functools", [ast.alias("partial")], 0))
    return True


def into_another_file(program: Program, found: Piece) -> bool:
    """Of a script alone, which becomes two files; what it needs beside its parameters has to be imported."""
    if {*program.files} != {ALONE} or program.others:
        return False
    name = fresh(program, "part")
    function = found.function(name, found.given)
    imports = imports_for(found.place.tree, function)
    if imports is None:
        return False
    function = copy.deepcopy(function)
    found.replace(_call(ast.Name(name, ast.Load()), found.given))
    moved = ast.Module([*imports, function], [])
    program.files["moved.py"] = moved
    tree = found.place.tree
    tree.body.insert(start_of(tree), ast.ImportFrom("moved", [ast.alias(name)], 0))
    return True


def imports_for(tree: ast.Module, code: ast.AST) -> list[ast.stmt] | None:
    """The imports that code needs in a file of its own; None where it needs anything else of its file."""
    needed = read(code)
    own = {one.name for one in ast.walk(code) if isinstance(one, (*FUNCTIONS, ast.ClassDef))}
    found: list[ast.stmt] = []
    known: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if any(alias.name == "*" for alias in node.names) or getattr(node, "level", 0):
                return None
            names = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            if names & needed:
                found.append(copy.deepcopy(node))
                known |= names
    others = {name for name in _module_names(tree) if name in needed} - known - own
    return None if others else found


def _module_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            names.add(node.name)
        else:
            names |= {
                one.id for one in ast.walk(node) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
            }
            inner = [one for one in ast.walk(node) if isinstance(one, (ast.Import, ast.ImportFrom))]
            names |= {(alias.asname or alias.name).partition(".")[0] for one in inner for alias in one.names}
    return names


def _into_class(program: Program, found: Piece, decorator: str, first: tuple[str, ...]) -> bool:
    """Into the class of the method, or into a new one."""
    cls = _class_of(found)
    if cls is None:
        name = fresh(program, "Parts")
        cls = ast.ClassDef(name, [], [], [], [])
        cls.type_params = []  # type: ignore[attr-defined]
        _before(found, cls)
    name = fresh(program, "part")
    cls.body.append(found.function(name, (*first, *found.given), decorator))
    found.replace(_call(ast.Attribute(ast.Name(cls.name, ast.Load()), name, ast.Load()), found.given))
    return True


def _class_of(found: Piece) -> ast.ClassDef | None:
    """The class at the top of the module in whose method a piece stands."""
    scopes = found.place.scopes
    if len(scopes) != 2 or not isinstance(scopes[0], ast.ClassDef) or scopes[0] not in found.place.tree.body:
        return None
    return scopes[0]


def _before(found: Piece, statement: ast.stmt) -> None:
    """A statement before the one at the top of the module in which a piece stands, where a name is looked up late."""
    tree = found.place.tree
    if found.place.block is tree.body:
        tree.body.insert(found.start, statement)
        found.start, found.end = found.start + 1, found.end + 1
        return
    inside = found.place.block[found.start]
    index = next(number for number, one in enumerate(tree.body) if any(node is inside for node in ast.walk(one)))
    tree.body.insert(index, statement)


def _binds_given(function: ast.FunctionDef, found: Piece) -> bool:
    bound = {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    return bool(bound & set(found.given))


def _trained(program: Program) -> set[str]:
    names: set[str] = set()
    for node in program.nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "backward" and not node.args:
                names.add(ast.unparse(node.func.value))
            elif node.func.attr in ("scale_loss", "backward", "scale") and node.args:
                names.add(ast.unparse(node.args[0]))
    return {name for name in names if name.isidentifier()}


def _trains(statement: ast.stmt) -> bool:
    calls = [one for one in ast.walk(statement) if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)]
    return any(one.func.attr in ("backward", "scale_loss") for one in calls)  # type: ignore[attr-defined]


def _loops_inside(place: BlockPlace) -> bool:
    return any(isinstance(one, (ast.For, ast.While)) and _trains(one) for one in place.block)


def _call(function: ast.expr, names: tuple[str, ...]) -> ast.Call:
    return ast.Call(function, [ast.Name(one, ast.Load()) for one in names], [])


def _moved(find: Finder, move: Mover, program: Program, random: Random) -> bool:
    """The first piece of each file, since another may stand inside of it."""
    done: set[str] = set()
    for found in find(program):
        if found.place.path not in done and move(program, found):
            done.add(found.place.path)
    return bool(done)


_PIECES: dict[str, Finder] = {"a loss": losses, "a step": steps, "a loop": loops}
_PLACES: dict[str, Mover] = {
    "a function": into_function,
    "a nested function": into_nested_function,
    "a method": into_method,
    "a static method": into_static_method,
    "a class method": into_class_method,
    "a partial": into_partial,
    "another file": into_another_file,
}
REWRITES = {
    f"{what} into {where}": partial(_moved, find, move)
    for what, find in _PIECES.items()
    for where, move in _PLACES.items()
}
REWRITES["a loss into a lambda"] = partial(_moved, losses, into_lambda)
