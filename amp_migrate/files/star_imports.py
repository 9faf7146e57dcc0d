"""What a star import of a module hands on of what that module imports itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from amp_migrate.files.contents import Definition, parsed
from amp_migrate.files.imports import canonical, member, split


def handed_on(file: Path, name: str, known: dict[Path, str | None] | None = None) -> str | None:
    """The resolved name that a star import of a module gives a name which the module imports itself.

    `known` are the answers for modules on the way, None for those that are being asked: modules may import each other.
    """
    known = {} if known is None else known
    if file not in known:
        known[file] = None
        known[file] = _bound_at_end(file, name, known)
    return known[file]


def _bound_at_end(file: Path, name: str, known: dict[Path, str | None]) -> str | None:
    exported = _exported(file)
    if name.startswith("_") or (exported is not None and name not in exported):
        return None
    found = None
    for node in _at_import(parsed(file).body):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found = _import_bound(file, node, name, known) or found
        elif isinstance(node, Definition) and node.name == name:
            found = None
    return found


def _import_bound(
    file: Path, node: ast.Import | ast.ImportFrom, name: str, known: dict[Path, str | None]
) -> str | None:
    """What one import gives a name."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if name == (alias.asname or alias.name.partition(".")[0]):
                return canonical(file, alias.name if alias.asname else name)
        return None
    module = canonical(file, "." * node.level + (node.module or ""))
    for alias in node.names:
        if name == (alias.asname or alias.name):
            return member(module, alias.name)
    place = split(module)
    if node.names[0].name == "*" and place is not None and not place[1]:
        return handed_on(place[0], name, known)
    return None


def _at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, those in an `if` or a `try` included."""
    for node in body:
        yield node
        for field in ("body", "orelse", "handlers", "finalbody"):
            for inner in getattr(node, field, []) if isinstance(node, (ast.If, ast.Try)) else ():
                yield from _at_import(inner.body if isinstance(inner, ast.ExceptHandler) else [inner])


@cache
def _exported(file: Path) -> frozenset[str] | None:
    """The names in `__all__`; None for a module without one, or with one that is computed."""
    for node in parsed(file).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets
        ):
            if isinstance(node.value, (ast.List, ast.Tuple)):
                given = [one.value for one in node.value.elts if isinstance(one, ast.Constant)]
                return frozenset(one for one in given if isinstance(one, str))
    return None
