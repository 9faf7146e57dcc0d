"""Where code is nested most deeply: analysis that walks down a tree ends at some depth."""

from __future__ import annotations

import ast

from amp_migrate.files.syntax import tree_of


def deepest(source: bytes) -> tuple[int, int]:
    """How deep LibCST's tree of a source is, about, and the line (from 1) where it is so; 0 for what does not parse."""
    waiting: list[tuple[int, int, ast.AST]] = [(0, 1, tree_of(source))]
    most = (0, 1)
    while waiting:
        depth, line, node = waiting.pop()
        line = getattr(node, "lineno", line)
        most = max(most, (depth, line), key=lambda found: found[0])
        levels = len(node.values) if isinstance(node, ast.BoolOp) else 1  # `a and b and c` is two operations there
        waiting.extend((depth + levels, line, child) for child in ast.iter_child_nodes(node))
    return most
