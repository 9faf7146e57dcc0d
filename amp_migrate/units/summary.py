"""What one file defines, imports and refers to, from one parse with `ast`."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from amp_migrate.files.bindings import imported, stars_of
from amp_migrate.files.imports import canonical, module_name
from amp_migrate.files.syntax import parsed
from amp_migrate.units.definition import Definition
from amp_migrate.units.reader import Names, read_definition
from amp_migrate.units.tie import Tie

MODULE = "<module>"

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_GLOBAL = re.compile(rb"^[ \t]+global[ \t]", re.MULTILINE)

_Imports = dict[str, set[str]]


@dataclasses.dataclass(frozen=True)
class Summary:
    """One file. Definitions are functions, classes, variables and the code of the module itself.

    `exports` are the names that the module only has from an import, with their canonical names; `stars` the modules
    whose names it takes over altogether.
    """

    definitions: Mapping[str, Definition]
    exports: Mapping[str, frozenset[str]]
    stars: tuple[str, ...]


def summarise(file: Path, source: bytes, tie: Tie) -> Summary:
    """The summary of a file, as to the value that ties a unit together.

    Raises SyntaxError, ValueError and RecursionError for what `ast` does not take.
    """
    tree = parsed(source)
    statements = list(_top_level(tree.body))
    imports: _Imports = {}
    for node in (*statements, *_global_imports(tree, source)):
        for name, dotted in imported(node):
            imports.setdefault(name, set()).add(dotted)
    stars = [dotted for node in statements for dotted in stars_of(node)]
    for star in stars:
        for name in tie.stars.get(star, ()):
            imports.setdefault(name, set()).add(f"{star}.{name}")
    parts = [*_parts(statements), (MODULE, tree)]
    names = Names(file, module_name(file), imports, {name for name, _ in parts}, bool(stars))
    flags = {id(node) for block in statements if isinstance(block, ast.Try) for node in _flags(block, tie)}
    nodes = {id(node): node for _, node in parts}
    read = {key: read_definition(node, names, tie) for key, node in nodes.items()}
    for key in flags & read.keys():
        read[key] = dataclasses.replace(read[key], uses_handle=True, holds_handle=True)
    definitions: dict[str, Definition] = {}
    for name, node in parts:
        found = read[id(node)]
        definitions[name] = definitions[name] | found if name in definitions else found
    exports = {name: frozenset(canonical(file, dotted) for dotted in found) for name, found in imports.items()}
    return Summary(definitions, exports, tuple(canonical(file, star) for star in stars))


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when the module is imported, inside `if`, `try` and their like as well."""
    for statement in body:
        yield statement
        if not isinstance(statement, _Function | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                yield from _top_level(getattr(statement, field, []))
            for handler in getattr(statement, "handlers", []):
                yield from _top_level(handler.body)


def _global_imports(tree: ast.Module, source: bytes) -> Iterator[ast.AST]:
    """Imports inside of functions that bind a name of the module (`global amp`)."""
    if _GLOBAL.search(source) is None:
        return
    nodes = list(ast.walk(tree))
    declared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    yield from (node for node in nodes if any(name in declared for name, _ in imported(node)))


def _parts(statements: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """The definitions of a module: names, with the statements that define them, or that put something into them."""
    bound: set[str] = set()
    for statement in statements:
        if isinstance(statement, _Function | ast.ClassDef):
            yield statement.name, statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                    if target.value.id in bound:  # LEARNERS["q"] = QLearner
                        yield target.value.id, statement
                for node in ast.walk(target):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                        bound.add(node.id)
                        yield node.id, statement


def _flags(block: ast.Try, tie: Tie) -> Iterator[ast.stmt]:
    """What is set beside an import of a handle: it says whether there is one."""
    inside = list(_top_level(block.body))
    if any(tie.means(dotted) for node in inside for _, dotted in imported(node)):
        yield from (node for node in inside if isinstance(node, ast.Assign))
        for handler in block.handlers:
            yield from (node for node in _top_level(handler.body) if isinstance(node, ast.Assign))
