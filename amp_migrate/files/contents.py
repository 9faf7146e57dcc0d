"""What the top of a file on disk defines, assigns and imports: each file is parsed once for all who ask."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from amp_migrate.files.imports import canonical, member, split
from amp_migrate.files.read import read_if_there
from amp_migrate.files.syntax import tree_of

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def parsed(file: Path) -> ast.Module:
    """The syntax tree of a file; an empty one where it cannot be read or parsed."""
    return tree_of(read_if_there(file))


@cache
def definitions_in(file: Path) -> dict[str, Definition]:
    """The functions and classes at the top of a file, and the methods of these: `Class.method`."""
    known: dict[str, Definition] = {}
    for node in parsed(file).body:
        if isinstance(node, Definition):
            known[node.name] = node
        if isinstance(node, ast.ClassDef):
            known |= {f"{node.name}.{inner.name}": inner for inner in node.body if isinstance(inner, Definition)}
    return known


@cache
def assigned_in(file: Path) -> dict[str, list[ast.expr]]:
    """What variables at the top of a file are given."""
    known: dict[str, list[ast.expr]] = {}
    for node in parsed(file).body:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign):
                known.setdefault(target.id, []).append(node.value)
    return known


@cache
def imported_names(file: Path) -> dict[str, str]:
    """The resolved names of what a module imports by name, `as` what it is bound to."""
    found: dict[str, str] = {}
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.ImportFrom):
            module = canonical(file, "." * node.level + (node.module or ""))
            found |= {alias.asname or alias.name: member(module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.name if alias.asname else alias.name.partition(".")[0]
                found[alias.asname or bound] = canonical(file, bound)
    return found


def imported_member(file: Path, node: ast.Attribute) -> str | None:
    """The resolved name of `losses.overlap`, where a file imports `losses`."""
    imported = imported_names(file).get(node.value.id) if isinstance(node.value, ast.Name) else None
    return member(imported, node.attr) if imported is not None else None


@cache
def _names_imported(file: Path) -> tuple[tuple[str, str, str], ...]:
    """What a module imports from others: the module, the name there (`*` for all of them), and the name here."""
    return tuple(
        (canonical(file, "." * node.level + (node.module or "")), alias.name, alias.asname or alias.name)
        for node in parsed(file).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


def imported_from(file: Path, name: str) -> Iterator[tuple[Path, str]]:
    """Where a module has a name from that it does not define; of `Class.method`, the class."""
    first, dot, method = name.partition(".")
    for module, theirs, ours in _names_imported(file):
        if theirs == "*" or first == ours:
            place = split(member(module, first if theirs == "*" else theirs) + dot + method)
            if place is not None:
                yield place


def forget_contents(most: int) -> bool:
    """Frees the syntax trees that are kept of files, where they are more than so many; True where it did."""
    is_too_much = parsed.cache_info().currsize > most
    for kept in (parsed, definitions_in, assigned_in) if is_too_much else ():
        kept.cache_clear()
    return is_too_much
