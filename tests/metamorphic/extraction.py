"""A piece of a block as a function of its own: what it needs, what it gives back, and whether it may be moved at all."""

from __future__ import annotations

import ast
import dataclasses

from tests.metamorphic.program import Program
from tests.metamorphic.scopes import COMPREHENSIONS, FUNCTIONS, bound, captured, certainly_bound, local_names, read
from tests.metamorphic.walk import BlockPlace

_STAYING = (
    ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Delete, ast.Lambda, ast.ClassDef,
    ast.Import, ast.ImportFrom, ast.AsyncFor, ast.AsyncWith, *FUNCTIONS, *COMPREHENSIONS[3:],
)  # fmt: skip


@dataclasses.dataclass(eq=False)
class Piece:
    """Statements of a block, or the value of the only one; `given` are the names that it needs, `made` those it binds
    for others.
    """

    place: BlockPlace
    start: int
    end: int
    given: tuple[str, ...]
    made: tuple[str, ...]
    value: ast.expr | None = None

    @property
    def body(self) -> list[ast.stmt]:
        """What the function does."""
        if self.value is not None:
            return [ast.Return(self.value)]
        return [
            *self.place.block[self.start : self.end],
            *([ast.Return(_tuple(self.made, ast.Load()))] if self.made else []),
        ]

    def function(self, name: str, parameters: tuple[str, ...], decorator: str = "") -> ast.FunctionDef:
        arguments = ast.arguments([], [ast.arg(one) for one in parameters], None, [], [], None, [])
        decorators: list[ast.expr] = [ast.Name(decorator, ast.Load())] if decorator else []
        function = ast.FunctionDef(name, arguments, self.body, decorators)
        function.type_params = []  # type: ignore[attr-defined]
        return function

    def replace(self, call: ast.expr) -> None:
        """The call in the place of the piece."""
        first = self.place.block[self.start]
        if self.value is not None:
            first.value = call  # type: ignore[attr-defined]
            return
        made: ast.stmt = ast.Assign([_tuple(self.made, ast.Store())], call) if self.made else ast.Expr(call)
        self.place.block[self.start : self.end] = [made]


def piece(program: Program, place: BlockPlace, start: int, end: int, value: ast.expr | None = None) -> Piece | None:
    """These statements, or the value of the first; None where they cannot be moved, or need what may not be there."""
    code: list[ast.AST] = [value] if value is not None else [*place.block[start:end]]
    nodes = [node for one in code for node in ast.walk(one)]
    if place.is_in_class_body or any(isinstance(node, _STAYING) for node in nodes) or _jumps(code):
        return None
    if any(_is_private(node) for node in nodes) or (value is not None and bound(code)):
        return None
    own, outer = _locals(place), _outer(place)
    if own is None:
        return None
    needed, changed = read(code) & own, bound(code)
    if (read(code) | changed) & (outer | _declared(place)) or changed & _captured(place):
        return None
    if value is not None:
        is_there = needed <= place.known_at(start)
        return Piece(place, start, end, tuple(sorted(needed)), (), value) if is_there else None
    statements = place.block[start:end]
    made = changed & _used_elsewhere(place, start, end)
    given = (_read_first(statements) & own) | (made - certainly_bound(statements))
    if not given <= place.known_at(start):
        return None
    return Piece(place, start, end, tuple(sorted(given)), tuple(sorted(made)))


def _locals(place: BlockPlace) -> set[str] | None:
    """The variables of the function or module; None where some of them belong to others."""
    if place.function is None:
        modules = [
            one
            for one in place.tree.body
            if not isinstance(one, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom))
        ]
        return {name for one in modules for name in bound(one)} - _imported(place.tree)
    if any(isinstance(one, (ast.Global, ast.Nonlocal)) for one in ast.walk(place.function)):
        return None
    return local_names(place.function)


def _outer(place: BlockPlace) -> set[str]:
    """The variables of functions around the function."""
    functions = [one for one in place.scopes[:-1] if isinstance(one, FUNCTIONS)]
    return {name for one in functions for name in local_names(one)} - (_locals(place) or set())


def _captured(place: BlockPlace) -> set[str]:
    """The variables that functions inside look at when they are called."""
    return captured(place.tree.body if place.function is None else place.function.body)


def _declared(place: BlockPlace) -> set[str]:
    """The variables of a module that a function may bind."""
    return {name for one in ast.walk(place.tree) if isinstance(one, ast.Global) for name in one.names}


def _used_elsewhere(place: BlockPlace, start: int, end: int) -> set[str]:
    """The names that are read anywhere else in the function or module. In a loop the next round may read them."""
    around = place.function or place.tree
    inside = {id(node) for one in place.block[start:end] for node in ast.walk(one)}
    names = {
        node.id
        for node in ast.walk(around)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in inside
    }
    augmented = {
        node.target.id
        for node in ast.walk(around)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
    return names | augmented


def _read_first(statements: list[ast.stmt]) -> set[str]:
    """The names that may be read before these statements bind them."""
    known: set[str] = set()
    needed: set[str] = set()
    for statement in statements:
        needed |= _needed_by(statement) - known
        known |= certainly_bound([statement])
    return needed


def _needed_by(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.AugAssign):
        return read(statement) | bound(statement)
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        body = _read_first(statement.body) - bound(statement.target)
        return read(statement.iter) | body | _read_first(statement.orelse)
    if isinstance(statement, ast.While):
        return read(statement.test) | _read_first(statement.body) | _read_first(statement.orelse)
    if isinstance(statement, ast.If):
        return read(statement.test) | _read_first(statement.body) | _read_first(statement.orelse)
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return read(statement.items) | (_read_first(statement.body) - bound(statement.items))
    return read(statement)


def _jumps(code: list[ast.AST]) -> bool:
    """True where `break` or `continue` leaves the piece."""
    for node in code:
        if isinstance(node, (ast.Break, ast.Continue)):
            return True
        if isinstance(node, (ast.For, ast.While)):
            if _jumps(list(node.orelse)):
                return True
        elif _jumps(list(ast.iter_child_nodes(node))):
            return True
    return False


def _is_private(node: ast.AST) -> bool:
    """`self.__model` and `super()` mean something else outside of their class."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in ("super", "__class__") or (name.startswith("__") and not name.endswith("__"))


def _imported(tree: ast.Module) -> set[str]:
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}


def _tuple(names: tuple[str, ...], context: ast.expr_context) -> ast.expr:
    values: list[ast.expr] = [ast.Name(name, context) for name in names]
    return values[0] if len(values) == 1 else ast.Tuple(values, context)
