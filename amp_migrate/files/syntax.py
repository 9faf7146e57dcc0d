"""Python's own syntax tree of code that nobody vouches for."""

from __future__ import annotations

import ast


def tree_of(source: bytes | str) -> ast.Module:
    """The syntax tree of some source; an empty one for what Python cannot parse, which is reported elsewhere."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])
