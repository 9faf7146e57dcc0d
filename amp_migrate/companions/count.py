"""How often a file names a companion, read from its text alone: what the totals of a report are made of.

The counting knows nothing of what was decided, so that what it finds before a migration, and what it finds after, are
two facts and not one.
"""

from __future__ import annotations

import ast

from amp_migrate.apex_exports import APEX_EXPORTS
from amp_migrate.companions.table import canonical
from amp_migrate.companions.uses import is_known
from amp_migrate.files.bindings import imported, stars_of
from amp_migrate.files.syntax import tree_of


def count_uses(source: bytes) -> int:
    """The places outside of imports that name something of Apex beside amp; none where the file does not parse."""
    tree = tree_of(source)
    paths: dict[str, str] = {}
    for node in ast.walk(tree):
        paths |= {name: f"{module}.{name}" for module in stars_of(node) for name in APEX_EXPORTS.get(module, ())}
        paths |= {name: path for name, path in imported(node) if path.split(".")[0] == "apex"}
    return sum(is_known(_path(node, paths)) for node in ast.walk(tree)) if paths else 0


def _path(node: ast.AST, paths: dict[str, str]) -> str:
    """What a name or an attribute that is read means in Apex; empty for everything else."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return canonical(paths.get(node.id, ""))
    if isinstance(node, ast.Attribute):
        base = _path(node.value, paths)
        # What is known itself has parts of its own (`FusedAdam.step`): these are no further uses.
        return canonical(f"{base}.{node.attr}") if base and not is_known(base) else ""
    return ""
