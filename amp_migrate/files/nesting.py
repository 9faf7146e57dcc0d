"""Where code is nested most deeply: analysis that walks down a tree ends at some depth."""

from __future__ import annotations

import ast


def deepest(source: bytes) -> tuple[int, int]:
    """How deep LibCST's tree of a source is, about, and the line (from 1) where it is so; 0 for what does not parse."""
    try:
        waiting: list[tuple[int, int, ast.AST]] = [(0, 1, ast.parse(source))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0, 1
    most = (0, 1)
    while waiting:
        depth, line, node = waiting.pop()
        line = getattr(node, "lineno", line)
        most = max(most, (depth, line), key=lambda found: found[0])
        levels = len(node.values) if isinstance(node, ast.BoolOp) else 1  # `a and b and c` is two operations there
        waiting.extend((depth + levels, line, child) for child in ast.iter_child_nodes(node))
    return most
