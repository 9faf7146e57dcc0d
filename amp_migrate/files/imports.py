"""From an import to the file behind it, as far as it can be found on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def files_of(path: Path, level: int, parts: list[str]) -> Iterator[Path]:
    """The file of a module that `path` imports: at most one.

    Relative imports are looked up from the package, absolute ones from the script's folder and those above it.
    """
    if not parts:
        return
    if level:
        folder = path.parent
        for _ in range(level - 1):
            folder = folder.parent
        roots = [folder]
    else:
        roots = [path.parent, *_project_folders(path)]
    for root in roots:
        base = root.joinpath(*parts)
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if os.path.isfile(file):
                yield file
                return


def _project_folders(path: Path) -> Iterator[Path]:
    """The folders above a script, up to the repository's root (or three, outside of a repository)."""
    for depth, folder in enumerate(path.resolve().parent.parents):
        if os.path.exists(folder / ".git") or depth == 2:
            yield folder
            return
        yield folder
