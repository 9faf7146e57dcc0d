"""The companions of many files: what they do with each other's instances and names decides together.

train.py    model = DistributedDataParallel(model)              (Apex's)
save.py     if isinstance(model, DistributedDataParallel):      (Apex's, too: migrated with train.py, or not at all)
"""

from __future__ import annotations

import ast
import dataclasses
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeGuard

from amp_migrate.apex_exports import APEX_EXPORTS
from amp_migrate.companions.decisions import Surroundings
from amp_migrate.companions.stage import Stage, keeps_apex, migrate_companions, not_migrated
from amp_migrate.companions.table import APEX_ONLY, COMPANIONS, canonical, family, words_in
from amp_migrate.files.bindings import imported, stars_of
from amp_migrate.files.helpers import Helpers
from amp_migrate.files.syntax import tree_of
from amp_migrate.processes import Died
from amp_migrate.result import Result
from amp_migrate.sources.screen import IMPORTS_APEX
from amp_migrate.units.index import Unit
from amp_migrate.units.workspace import Workspace, real


def migrate_all_companions(results: Mapping[Path, Result], workspace: Workspace) -> dict[Path, Result]:
    """The second stage for some files of a workspace; those that the first one has refused stay as they are."""
    index = workspace.index()
    used = {file: _uses(index.source(file)) for file in index.holding(IMPORTS_APEX)}
    words = frozenset(word for file in index.holding(APEX_ONLY) for word in words_in(index.source(file)))
    waiting = [path for path, result in results.items() if real(result.path) in used]
    refused = frozenset(real(result.path) for result in results.values() if keeps_apex(result))
    kept: dict[str, str] = {}

    def size(path: Path) -> int:
        return len(results[path].output)

    while True:
        work = partial(_stage, results, workspace, dict(kept), words, refused)
        made = workspace.workers.map("other parts of apex", work, waiting, size)
        stages = {
            real(path): not_migrated(results[path], str(stage)) if isinstance(stage, Died) else stage
            for path, stage in zip(waiting, made, strict=True)
        }
        more = dict(_kept_by_others(used, stages))
        if more.keys() <= kept.keys():
            return {**results, **{path: stages[real(path)].result for path in waiting}}
        kept |= more


def _stage(
    results: Mapping[Path, Result],
    workspace: Workspace,
    kept: Mapping[str, str],
    words: frozenset[str],
    refused: frozenset[Path],
    path: Path,
) -> Stage:
    result = results[path]
    file, index = real(result.path), workspace.index()
    # What a file uses can be the whole of a large package: it is not asked where nothing is left.
    using = index.used_with(Unit((file,), {}), IMPORTS_APEX, anywhere=True).files if refused else ()
    needing = [one for one in using if one in refused]
    users = {name: index.naming(name, file) for name in _names_of_apex(result.output)}
    surroundings = Surroundings(
        workspace.oldest_torch(file),
        {name: os.path.relpath(found[0]) for name, found in users.items() if found},
        kept,
        words,
        workspace.shown(needing[0]) if needing else None,
    )
    try:
        return migrate_companions(result, index.name_of(file), Helpers(holding=index.holding), surroundings)
    except RecursionError:
        return not_migrated(result, "the code is nested too deeply to be analysed")
    except Exception as error:  # a bug of ours must not cost the user the rest of the file
        return not_migrated(result, f"{type(error).__name__}: {error}")


@dataclasses.dataclass(frozen=True)
class _Uses:
    """The families of companions that a file has to do with, and those that it only tests for instances of."""

    held: frozenset[str]
    tested: frozenset[str]


def _kept_by_others(used: Mapping[Path, _Uses], stages: Mapping[Path, Stage]) -> Iterator[tuple[str, str]]:
    """The families that nobody can migrate, with why: a file tests for instances that others make, and one of them all
    keeps Apex's.
    """
    for one in {family(path) for path in COMPANIONS}:
        testing = [file for file, uses in used.items() if one in uses.tested]
        holding = [file for file, uses in used.items() if one in uses.held]
        keeping = [file for file in holding if file not in stages or one in stages[file].stays]
        if testing and keeping:
            name = one.rpartition(".")[2]
            places = os.path.relpath(testing[0]), os.path.relpath(keeping[0])
            yield one, f"{places[0]} tests for instances of {name} that others make, and {places[1]} keeps Apex's"


def _uses(source: bytes) -> _Uses:
    tree = tree_of(source)
    paths = dict(_from_apex(tree))
    tests = [node.args[1] for node in ast.walk(tree) if _is_type_test(node)]
    tested = {id(node) for test in tests for node in ast.walk(test)}
    found = [
        (family(path), id(node) in tested) for node in ast.walk(tree) if (path := _path(node, paths)) in COMPANIONS
    ]
    made = {one for one, is_tested in found if not is_tested}
    held = frozenset(one for one, _ in found)
    return _Uses(held, held - made)


def _is_type_test(node: ast.AST) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or len(node.args) != 2:
        return False
    return node.func.id in ("isinstance", "issubclass")


def _names_of_apex(source: bytes) -> set[str]:
    """What a file imports from Apex, and what it sets beside such an import, in the same `try`."""
    tree = tree_of(source)
    attempts = (node for node in ast.walk(tree) if isinstance(node, ast.Try) and any(_from_apex(node)))
    beside = (part.id for attempt in attempts for part in ast.walk(attempt) if _is_set(part))
    return {name for name, _ in _from_apex(tree)}.union(beside)


def _is_set(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _from_apex(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        yield from ((name, path) for name, path in imported(node) if path.split(".")[0] == "apex")
        yield from ((name, f"{star}.{name}") for star in stars_of(node) for name in APEX_EXPORTS.get(star, ()))


def _path(node: ast.AST, paths: Mapping[str, str]) -> str:
    """The companion that a name or an attribute means."""
    if isinstance(node, ast.Name):
        return canonical(paths.get(node.id, ""))
    if isinstance(node, ast.Attribute):
        base = _path(node.value, paths)
        return canonical(f"{base}.{node.attr}") if base else ""
    return ""
