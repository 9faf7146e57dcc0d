"""Which files are scripts that train."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.files.syntax import parsed


def is_run(source: bytes) -> bool:
    """True for a file that trains when it is run: it asks for its `__name__`, or has a backward of the module."""
    try:
        module = parsed(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(_asks_for_its_name(node) or _is_backward(node) for node in _of_module(module))


def _of_module(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is imported or run."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield child
            yield from _of_module(child)


def _asks_for_its_name(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(
        isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(node.test)
    )


def _is_backward(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "backward"
