"""Which files to look at: git-aware search of folders, everything that is named explicitly."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

_SKIPPED = frozenset(
    ".git .hg .svn .tox .nox .venv venv env __pycache__ .mypy_cache .ruff_cache .pytest_cache node_modules "
    "site-packages build dist .eggs".split()
)


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The files to process, each once, folders searched for Python files.

    In a git work tree only tracked files and untracked ones that are not ignored; elsewhere everything but
    hidden folders, virtual environments and build output. Raises FileNotFoundError for a path that is not
    there.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if path.is_dir():
            for file in _in_folder(path):
                found.setdefault(file.resolve(), file)
        elif path.exists():
            found.setdefault(path.resolve(), path)
        else:
            raise FileNotFoundError(path)
    return list(found.values())


def _in_folder(folder: Path) -> Iterator[Path]:
    listed = _listed_by_git(folder)
    files = _walk(folder) if listed is None else listed
    for file in sorted(files):
        if file.suffix == ".py" and file.is_file() and not _leaves(file, folder):
            yield file


def _listed_by_git(folder: Path) -> list[Path] | None:
    """What git would commit below a folder; None outside of a work tree or without git."""
    command = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "."]
    try:
        output = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    names = [os.fsdecode(name) for name in output.split(b"\0") if name]
    return [folder / name for name in names if not _SKIPPED & set(Path(name).parts[:-1])]


def _walk(folder: Path) -> Iterator[Path]:
    for current, folders, files in os.walk(folder):
        here = Path(current)
        folders[:] = [name for name in folders if not _is_skipped(here / name)]
        yield from (here / name for name in files)


def _is_skipped(folder: Path) -> bool:
    return folder.name in _SKIPPED or folder.name.startswith(".") or (folder / "pyvenv.cfg").exists()


def _leaves(file: Path, folder: Path) -> bool:
    """True for links that point out of the folder that was asked for."""
    try:
        file.resolve().relative_to(folder.resolve())
    except ValueError:
        return True
    return False
