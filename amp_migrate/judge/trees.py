"""The two sides that are compared: the files of a program before and after its migration."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from amp_migrate.files.discover import find_files
from amp_migrate.files.git import GitError
from amp_migrate.files.neighbours import local_modules
from amp_migrate.files.read import read_if_there, read_regular
from amp_migrate.files.since import Since

_SUFFIXES = (".py", ".ipynb")


class NotComparable(Exception):
    """There is nothing to judge, for the reason that the message gives."""


@dataclasses.dataclass(frozen=True)
class Trees:
    """The Python files and notebooks of both sides, by their paths in the tree. `asked` are the changed ones that are
    to be judged; `shown` says how a path is written for people. With `with_others`, some may be changes that migrate
    nothing.
    """

    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    asked: frozenset[str]
    shown: Callable[[str], str]
    with_others: bool = False


def of_two(before: Path, after: Path) -> Trees:
    """Two files, or two folders. Raises NotComparable."""
    if before.is_dir() != after.is_dir():
        folder, file = (before, after) if before.is_dir() else (after, before)
        raise NotComparable(f"{folder} is a folder and {file} a file: give two of one kind")
    return _of_folders(before, after) if before.is_dir() else _of_files(before, after)


def of_revision(revision: str, paths: Iterable[Path]) -> Trees:
    """The files at a revision, and those of the work tree around the current folder; with `paths`, what was changed
    there is judged. Raises NotComparable, and GitError.
    """
    named = list(paths)
    missing = [str(path) for path in named if not os.path.lexists(path)]
    if missing:
        raise NotComparable(f"{', '.join(missing)} does not exist")
    first = named[0] if named else Path()
    since = Since(revision, first if first.is_dir() else first.parent)
    root = os.path.realpath(since.root)
    after = _read(root, find_files([Path(root)], and_notebooks=True))
    names = {name for name in since.names() if name.endswith(_SUFFIXES)}
    before = {**{name: source for name, source in after.items() if name not in names}, **since.before(names)}
    asked = frozenset(names & (before.keys() | after.keys()))
    if named:
        places = [_inside(root, path) for path in named]
        asked = frozenset(name for name in asked if any(_is_below(name, place) for place in places))
    return Trees(before, after, asked, lambda name: _in_words(os.path.join(root, name)), with_others=True)


def _of_folders(before: Path, after: Path) -> Trees:
    one, other = (_read(str(folder), find_files([folder], and_notebooks=True)) for folder in (before, after))
    for folder, files in ((before, one), (after, other)):
        if not files:
            raise NotComparable(f"there is no Python file and no notebook in {folder}")
    if not one.keys() & other.keys():
        raise NotComparable(f"{before} and {after} have no file in common: which one became which cannot be told")
    return Trees(one, other, _changed(one, other), lambda name: str((after if name in other else before) / name))


def _of_files(before: Path, after: Path) -> Trees:
    """Two files by the name of the second, each with what it imports from around it."""
    name = after.name
    sides: list[dict[str, bytes]] = []
    if before.suffix != after.suffix or after.suffix not in _SUFFIXES:
        raise NotComparable("give two Python files, or two notebooks")
    for file in (before, after):
        try:
            source = read_regular(file)
        except OSError as error:
            raise NotComparable(f"{file} cannot be read: {error.strerror or error}") from None
        folder = os.path.realpath(file.parent)
        around = local_modules(file, source) if file.suffix == ".py" else []
        own = {_relative(folder, other): content for other, content in around}
        own.pop(file.name, None)  # one that another file imports, by the name of which the other side may go
        sides.append({**own, name: source})
    one, other = sides
    folder = str(after.parent)
    return Trees(one, other, _changed(one, other), lambda place: _in_words(os.path.join(folder, place)))


def _changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> frozenset[str]:
    return frozenset(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _read(root: str, files: Iterable[Path]) -> dict[str, bytes]:
    return {_relative(root, file): read_if_there(file) for file in files}


def _relative(root: str, file: Path) -> str:
    return os.path.relpath(os.path.abspath(file), os.path.abspath(root)).replace(os.sep, "/")


def _inside(root: str, path: Path) -> str:
    place = os.path.relpath(os.path.realpath(path), root).replace(os.sep, "/")
    if place == os.pardir or place.startswith("../"):
        raise NotComparable(f"{path} is not in the repository {root}")
    return place


def _is_below(name: str, place: str) -> bool:
    return place == "." or name == place or name.startswith(f"{place}/")


def _in_words(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


__all__ = ["GitError", "NotComparable", "Trees", "of_revision", "of_two"]
