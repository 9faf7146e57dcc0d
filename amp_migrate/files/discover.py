"""Which files to look at: git-aware search of folders, everything that is named explicitly."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path

from amp_migrate.files.read import read_if_there

_SKIPPED = frozenset(
    ".git .hg .svn .tox .nox .venv venv env __pycache__ .mypy_cache .ruff_cache .pytest_cache node_modules "
    "site-packages build dist .eggs .ipynb_checkpoints".split()
)
# What git says of a folder with files that it does not track.
_NOT_OPENED = re.compile(r"could not open directory '(.*?)/?': ")
# A copy of Apex: its package, and what its setup.py says.
_PARTS_OF_APEX = ("amp", "fp16_utils", "parallel")
_IS_APEX = re.compile(rb"\bname\s*=\s*['\"]apex['\"]")
_HIDDEN_SOURCES = frozenset((".github", ".circleci", ".devcontainer"))


def find_files(
    paths: Iterable[Path], *, and_notebooks: bool = False, closed: dict[Path, OSError] | None = None
) -> list[Path]:
    """The files to process, each once, folders searched for Python files, and for notebooks where they are wanted.

    In a git work tree only tracked files and untracked ones that are not ignored; elsewhere everything but
    hidden folders, virtual environments and build output. Folders that may not be read go into `closed`, each with the
    reason. Raises FileNotFoundError for a path that is not there.
    """
    return list(_found(paths, and_notebooks=and_notebooks, closed=closed).values())


def real_files(paths: Iterable[Path]) -> set[Path]:
    """The Python files of `find_files`, resolved."""
    return set(map(Path, _found(paths, and_notebooks=False)))


def _found(paths: Iterable[Path], *, and_notebooks: bool, closed: dict[Path, OSError] | None = None) -> dict[str, Path]:
    """The files by their real paths."""
    found: dict[str, Path] = {}
    is_of_apex = cache(_is_of_apex)
    real_folder = cache(os.path.realpath)  # it asks for every part of a path: once for each folder, not for each file
    for path in paths:
        if os.path.isdir(path):
            for file in _in_folder(path, (".py", ".ipynb") if and_notebooks else (".py",), closed):
                if any(map(is_of_apex, file.parents)):
                    continue
                is_link = file.is_symlink()
                real = os.path.realpath(file) if is_link else os.path.join(real_folder(file.parent), file.name)
                if real not in found or found[real].is_symlink():
                    found[real] = file  # rather the file than a link to it
        elif os.path.exists(path):
            found.setdefault(os.path.realpath(path), path)
        else:
            raise FileNotFoundError(path)
    return found


def _is_of_apex(folder: Path) -> bool:
    """True for the package of a copy of Apex that came with a project, and for what holds it with its tests and its
    setup.py: what implements Apex is not what uses it.
    """
    if folder.name == "apex" and all((folder / part / "__init__.py").is_file() for part in _PARTS_OF_APEX):
        return True
    holds_it = (folder / "apex" / "__init__.py").is_file()
    return holds_it and _IS_APEX.search(read_if_there(folder / "setup.py")) is not None


def files_below(folder: Path, closed: dict[Path, OSError] | None = None) -> Iterator[Path]:
    """The files of a folder that belong to its project, whatever their kind, in the order of their paths. Folders that
    may not be read go into `closed`.
    """
    reasons = closed if closed is not None else {}
    # A folder that git ignores was asked for by name.
    yield from _listed_by_git(folder, reasons) or sorted(_walk(folder, reasons))


def _in_folder(folder: Path, suffixes: tuple[str, ...], closed: dict[Path, OSError] | None) -> Iterator[Path]:
    reasons = closed if closed is not None else {}
    for file in files_below(folder, reasons):
        if file.suffix in suffixes and _is_of(folder, file, reasons):
            yield file


def _is_of(folder: Path, file: Path, closed: dict[Path, OSError]) -> bool:
    """True for a file, and for a link to one inside of the folder that was asked for."""
    try:
        kind = os.lstat(file).st_mode
    except PermissionError as error:
        closed[_first_seen(file.parent)] = error
        return False
    except OSError:  # git still knows it, and it is gone
        return False
    return stat.S_ISREG(kind) or (stat.S_ISLNK(kind) and os.path.isfile(file) and not _leaves(file, folder))


def _first_seen(folder: Path) -> Path:
    """The folder itself, or the one above it that hides it."""
    try:
        os.lstat(folder)
    except PermissionError:
        return _first_seen(folder.parent)
    return folder


def _listed_by_git(folder: Path, closed: dict[Path, OSError]) -> list[Path]:
    """What git would commit below a folder, in the order of paths; nothing outside of a work tree or without git."""
    command = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "."]
    try:
        done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.CalledProcessError):
        return []
    for name in _NOT_OPENED.findall(os.fsdecode(done.stderr)):
        closed[folder / name] = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    names = sorted((os.fsdecode(name) for name in done.stdout.split(b"\0") if name), key=lambda name: name.split("/"))
    is_environment = cache(lambda below: _is_environment(folder / below))
    return [folder / name for name in names if not any(map(is_environment, _folders_of(name)))]


def _folders_of(name: str) -> Iterator[str]:
    """The folders of `a/b/file.py`: `a` and `a/b`."""
    return accumulate(name.split("/")[:-1], "{}/{}".format)


def _walk(folder: Path, closed: dict[Path, OSError]) -> Iterator[Path]:
    def note(error: OSError) -> None:
        closed[Path(error.filename)] = error

    for current, folders, files in os.walk(folder, onerror=note):
        here = Path(current)
        folders[:] = [name for name in folders if not _is_skipped(here / name)]
        yield from (here / name for name in files)


def _is_skipped(folder: Path) -> bool:
    hidden = folder.name.startswith(".") and folder.name not in _HIDDEN_SOURCES
    return hidden or folder.name in _SKIPPED or _is_environment(folder)


def _is_environment(folder: Path) -> bool:
    # os.path answers False where Path.exists raises: for folders that may not be read.
    return os.path.exists(folder / "pyvenv.cfg")


def _leaves(file: Path, folder: Path) -> bool:
    """True for links that point out of the folder that was asked for."""
    try:
        file.resolve().relative_to(folder.resolve())
    except ValueError:
        return True
    return False
