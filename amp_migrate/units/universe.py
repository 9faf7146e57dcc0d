"""The files among which a unit is looked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from amp_migrate.files.discover import real_files
from amp_migrate.files.neighbours import local_modules
from amp_migrate.files.read import read_if_there


def universe_of(paths: Iterable[Path], contents: Mapping[Path, bytes] | None = None) -> list[Path]:
    """The files that are given, with all Python files of their repositories; resolved, in path order.

    Outside of a repository: the given files, those of the given folders, the siblings of the files that were given by
    themselves, and what these import, directly or through others. `contents` has those that were read already, by
    their resolved paths; they need not be on disk. Raises FileNotFoundError for another path that is not there.
    """
    known = contents or {}
    given = [*paths, *known]
    roots = {root for path in given if (root := _repository(path)) is not None}
    found = _files([*given, *sorted(roots)], known)
    folders = {path.resolve() for path in given if path.is_dir()}
    alone = [path for path in given if folders.isdisjoint((path.resolve(), *path.resolve().parents))]
    loose = [path for path in alone if _repository(path) is None]
    found |= {file.resolve() for path in loose for file in path.resolve().parent.glob("*.py") if file.is_file()}
    for file in _files(loose, known):
        found |= {module for module, _ in local_modules(file, known[file] if file in known else read_if_there(file))}
    return sorted(found)


def _repository(path: Path) -> Path | None:
    resolved = path.resolve()
    return next((folder for folder in (resolved, *resolved.parents) if os.path.exists(folder / ".git")), None)


def _files(paths: list[Path], known: Mapping[Path, bytes]) -> set[Path]:
    on_disk = [path for path in paths if path not in known or path.exists()]
    return real_files(on_disk) | {path for path in paths if path in known}
