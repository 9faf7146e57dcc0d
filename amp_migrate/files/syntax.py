"""Python's own syntax tree of code that nobody vouches for."""

from __future__ import annotations

import ast


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
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])
