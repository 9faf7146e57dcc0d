"""Which names a piece of code binds and reads, and which of them certainly have a value where it ends."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

Code = ast.AST | Sequence[ast.AST]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def bound(code: Code) -> set[str]:
    """The names that code binds in the scope in which it stands."""
    found = _Names()
    found.look_at(code)
    return found.bound


def read(code: Code) -> set[str]:
    """The names that code reads, with those that functions in it take from outside of themselves."""
    found = _Names()
    found.look_at(code)
    return found.read


def captured(code: Code) -> set[str]:
    """The names of the scope in which code stands that functions and lambdas in it read when they are called."""
    found = _Names()
    found.look_at(code)
    return found.captured


def local_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """The names that are a function's own."""
    names = {arg.arg for arg in parameters(function.args)}
    body = _Names()
    body.look_at(function.body)
    return (names | body.bound) - body.declared


def certainly_bound(statements: Iterable[ast.stmt]) -> set[str]:
    """The names that have a value where control leaves these statements at their end."""
    names: set[str] = set()
    for statement in statements:
        if isinstance(statement, ast.If):
            names |= bound(statement.test)
            names |= _in_each(arm for arm in (statement.body, statement.orelse) if not _leaves(arm))
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            names |= bound(statement.items) | certainly_bound(statement.body)
        elif isinstance(statement, ast.Try):
            names |= certainly_bound(statement.finalbody)
            ways = [[*statement.body, *statement.orelse], *(one.body for one in statement.handlers)]
            names |= _in_each(way for way in ways if not _leaves(way))
        elif isinstance(statement, ast.Delete):
            names -= {one.id for one in ast.walk(statement) if isinstance(one, ast.Name)}
        elif not isinstance(statement, (ast.For, ast.AsyncFor, ast.While, ast.Match)):
            names |= bound(statement)
    return names


def _in_each(ways: Iterable[list[ast.stmt]]) -> set[str]:
    found = [certainly_bound(way) for way in ways]
    return set.intersection(*found) if found else set()


def blocks_of(statement: ast.AST) -> list[list[ast.stmt]]:
    """The blocks of a compound statement that run where it stands."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return []
    blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    blocks += [one.body for one in getattr(statement, "handlers", [])]
    blocks += [one.body for one in getattr(statement, "cases", [])]
    return [block for block in blocks if isinstance(block, list) and block]


def headers(statement: ast.stmt) -> list[ast.AST]:
    """What a compound statement has beside its blocks."""
    parts: list[ast.AST] = []
    for name, value in ast.iter_fields(statement):
        if name not in ("body", "orelse", "finalbody"):
            parts += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, ast.AST)]
    return [part for part in parts if not isinstance(part, (ast.ExceptHandler, ast.match_case))]


def _leaves(block: Sequence[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], _LEAVING)


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """All parameters of a function."""
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return every + [one for one in (arguments.vararg, arguments.kwarg) if one is not None]


class _Names:
    """The names of a piece of code, gathered part by part."""

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.read: set[str] = set()
        self.captured: set[str] = set()
        self.declared: set[str] = set()

    def look_at(self, code: Code) -> None:
        for node in [code] if isinstance(code, ast.AST) else code:
            self._visit(node)

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            self._function(node)
        elif isinstance(node, ast.ClassDef):
            self._class(node)
        elif isinstance(node, COMPREHENSIONS):
            self._comprehension(node)
        else:
            self._note(node)
            self.look_at(list(ast.iter_child_nodes(node)))

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            (self.read if isinstance(node.ctx, ast.Load) else self.bound).add(node.id)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.declared |= {*node.names}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self.bound |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            self.bound.add(node.name)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        if not isinstance(node, ast.Lambda):
            self.bound.add(node.name)
            self.look_at(node.decorator_list)
        self.look_at([one for one in (*node.args.defaults, *node.args.kw_defaults) if one is not None])
        inner = _Names()
        inner.look_at(node.body)
        taken = (inner.read | inner.captured | inner.declared) - local_names(node)
        self.read |= taken
        self.captured |= taken

    def _class(self, node: ast.ClassDef) -> None:
        self.bound.add(node.name)
        self.look_at([*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)])
        inner = _Names()
        inner.look_at(node.body)
        self.read |= inner.read | inner.captured
        self.captured |= inner.captured

    def _comprehension(self, node: ast.expr) -> None:
        inner = _Names()
        inner.look_at(list(ast.iter_child_nodes(node)))
        walrus = {one.target.id for one in ast.walk(node) if isinstance(one, ast.NamedExpr)}
        own = inner.bound - walrus
        self.bound |= walrus
        self.read |= inner.read - own
        self.captured |= inner.captured - own
