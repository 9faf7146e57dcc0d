"""Variables of modules that hold nothing but True and False (`MIXED_PRECISION = True`)."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from amp_migrate.files.contents import imported_from, parsed


def holds_bool(file: Path, name: str, seen: set[tuple[Path, str]] | None = None) -> bool:
    """True where the file, or the one that it has the variable from, gives it nothing but True and False.

    A local variable of the same name counts as well.
    """
    seen = set() if seen is None else seen
    if (file, name) in seen:
        return False
    seen.add((file, name))
    known = _booleans(file).get(name)
    return any(holds_bool(*place, seen) for place in imported_from(file, name)) if known is None else known


@cache
def _booleans(file: Path) -> dict[str, bool]:
    """Of the names that a file binds or deletes, in functions as well, whether they get nothing but True and False."""
    nodes = list(ast.walk(parsed(file)))
    given = {
        id(target)
        for node in nodes
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_literal_bool(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }
    found: dict[str, bool] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found[node.id] = found.get(node.id, True) and id(node) in given
    return found


def _is_literal_bool(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)
