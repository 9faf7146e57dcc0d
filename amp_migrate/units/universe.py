"""The files among which a unit is looked for."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from amp_migrate.files.discover import find_files
from amp_migrate.files.imports import canonical, split
from amp_migrate.units.bindings import imported, stars_of


def universe_of(paths: Iterable[Path], contents: Mapping[Path, bytes] | None = None) -> list[Path]:
    """The files that are given, with all Python files of their repositories; resolved, in path order.

    Outside of a repository: the given files, those of the given folders, the siblings of given files, and what all
    these import, directly or through others. `contents` has those that were read already, by their resolved paths;
    they need not be on disk. Raises FileNotFoundError for another path that is not there.
    """
    known = contents or {}
    given = [*paths, *known]
    roots = {root for path in given if (root := _repository(path)) is not None}
    found = _files([*given, *sorted(roots)], known)
    loose = [path for path in given if _repository(path) is None]
    siblings = {file for path in loose if not path.is_dir() for file in path.resolve().parent.glob("*.py")}
    waiting = sorted({*siblings, *_files(loose, known)})
    found |= set(waiting)
    while waiting:
        file = waiting.pop()
        new = {other for other in _imported_files(file, known.get(file)) if other not in found}
        found |= new
        waiting += new
    return sorted(found)


def _repository(path: Path) -> Path | None:
    resolved = path.resolve()
    return next((folder for folder in (resolved, *resolved.parents) if os.path.exists(folder / ".git")), None)


def _files(paths: list[Path], known: Mapping[Path, bytes]) -> set[Path]:
    on_disk = [path for path in paths if path not in known or path.exists()]
    return {file.resolve() for file in find_files(on_disk)} | {path for path in paths if path in known}


def _imported_files(file: Path, source: bytes | None) -> Iterator[Path]:
    try:
        tree = ast.parse(file.read_bytes() if source is None else source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for dotted in (*names, *(dotted for _, dotted in imported(node)), *stars_of(node)):
            found = split(canonical(file, dotted))
            if found is not None:
                yield found[0].resolve()
