"""Python's own syntax tree of code that nobody vouches for."""

from __future__ import annotations

import ast
import keyword
import warnings
from collections.abc import Iterator
from functools import lru_cache

_KEPT = 256  # one file is asked about several times, and most are the same in the programs that are compared


def names_in(node: ast.AST) -> set[str]:
    """The variables that some code names."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def parses(source: bytes | str) -> bool:
    """True for what Python can parse."""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def tree_of(source: bytes | str) -> ast.Module:
    """The syntax tree of some source; an empty one for what Python cannot parse, which is reported elsewhere."""
    try:
        return parsed(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


@lru_cache(_KEPT)
def parsed(source: bytes | str) -> ast.Module:
    """The syntax tree of some source, for all who ask: nobody changes it. `getattr(x, "name")` is the attribute
    `x.name` in it. Raises SyntaxError, ValueError, RecursionError and MemoryError for what Python cannot parse.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of invalid escapes: not our business
        tree = ast.parse(source)
    is_used = ("getattr" if isinstance(source, str) else b"getattr") in source  # type: ignore[operator]
    return _PlainAttributes().visit(tree) if is_used and _is_builtin(tree, "getattr") else tree


class _PlainAttributes(ast.NodeTransformer):
    """One spelling of attributes, as `amp_migrate.plain_attributes` makes it in the trees of LibCST."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str() as name)], keywords=[]):
                if is_attribute(name) and not isinstance(value, ast.Starred):
                    return ast.copy_location(ast.Attribute(value, name, ast.Load()), node)
        return node


def is_attribute(name: str) -> bool:
    """True for what can be written behind a dot, where Python changes names with two underscores."""
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")


def _is_builtin(tree: ast.Module, name: str) -> bool:
    """False where a builtin gets another meaning, or is handed on."""
    nodes = list(ast.walk(tree))
    callees = {one.func for one in nodes if isinstance(one, ast.Call)}
    return not any(one not in callees and name in _names(one) for one in nodes)


def _names(node: ast.AST) -> Iterator[str]:
    """What a node is, defines or imports by name."""
    return (text for field in ("id", "name", "asname", "arg") if isinstance(text := getattr(node, field, None), str))
