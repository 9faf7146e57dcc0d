"""A working copy of the user's folder, for one run.

Each run gets one, so that no run sees what another has written (a checkpoint of the original would be resumed by the
migrated script), and no file of the user's is overwritten. In the project, folders are real and small files are copies,
so that whatever the script starts (a shell, another Python) works on the copy, too. Large files, whatever comes after
many thousands of entries, and the rest of a working directory that is no project are links: data sets lie beside
scripts. Before the script writes to a link, a real file or folder takes its place (`detach`, called by the child).
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

_LARGEST_COPY = 16 * 2**20  # bytes
_ALL_COPIES = 256 * 2**20
_MOST_COPIES = 5_000
_MOST_ENTRIES = 50_000
_LEFT_OUT = {"__pycache__"}


class Mirror:
    """The folder `copy`, a working copy of `real`."""

    def __init__(self, copy: Path, real: Path) -> None:
        self.copy = copy
        self.real = real

    @classmethod
    def make(cls, copy: Path, real: Path, project: Path, changed: Mapping[Path, bytes]) -> Mirror:
        """Make the folder `copy`: a working copy of `project`, links to whatever else lies in `real`.

        Files of `changed` (by their real path) get another content.
        """
        mirror = cls(copy, real)
        copy.mkdir(parents=True)
        if project.is_relative_to(real):
            mirror._link_around(project)
            _fill(project, mirror.path(project))
        else:
            _link_entries(real, copy)
        for path, content in changed.items():
            if path.is_relative_to(real):
                place = mirror.path(path)
                mirror.detach(place, keep=False)
                place.write_bytes(content)
                if path.exists():
                    shutil.copymode(path, place)
        return mirror

    def _link_around(self, project: Path) -> None:
        """Real folders down to `project`, which stays empty; links to what lies beside them."""
        folder, place = self.real, self.copy
        for part in project.relative_to(self.real).parts:
            _link_entries(folder, place)
            folder, place = folder / part, place / part
            place.unlink()
            place.mkdir()

    def path(self, real: Path) -> Path:
        """Where a path of the real folder lies in the mirror."""
        return self.copy / real.relative_to(self.real)

    def detach(self, path: Path, *, keep: bool = True) -> None:
        """Make `path` real, so that writing to it changes the mirror only.

        Its folders become real folders of links. A file that is linked becomes a copy, or nothing if its content is
        not needed (`keep` False).
        """
        place = self.copy
        for part in path.relative_to(self.copy).parts:
            place = place / part
            if not place.is_symlink():
                continue
            target = Path(os.path.realpath(place))  # unlike resolve(), it does not mind a loop
            if target.is_relative_to(os.path.realpath(self.copy)):
                place = target  # a link of the project's own, from one place of it to another
            elif target.is_dir():
                place.unlink()
                place.mkdir()
                _link_entries(target, place)
            elif target.is_file():
                place.unlink()
                if keep:
                    shutil.copy2(target, place)


def is_copied_whole(folder: Path) -> bool:
    """False for a folder with so much in it (a home directory) that a working copy of it is mostly links."""
    return sum(1 for _ in itertools.islice(_below(folder), _MOST_COPIES + 1)) <= _MOST_COPIES


def _below(folder: Path) -> Iterator[str]:
    for _, folders, files in os.walk(folder):
        yield from folders
        yield from files


def _link_entries(real: Path, copy: Path) -> None:
    for entry in os.scandir(real):
        (copy / entry.name).symlink_to(entry.path)


def _fill(real: Path, copy: Path) -> None:
    """Level by level, so that scripts are copied before what lies deep in data."""
    entries, copies, copied = 0, 0, 0
    waiting = deque([(str(real), copy)])
    while waiting:
        folder, place = waiting.popleft()
        for entry in _scan(folder):
            entries += 1
            target = place / entry.name
            if entry.name in _LEFT_OUT:
                continue
            if entry.name == "objects" and place.name == ".git":
                _borrow_objects(entry.path, target)
            elif entry.is_symlink():
                target.symlink_to(_target(entry, real, copy))
            elif entry.is_dir() and entries < _MOST_ENTRIES and not _is_no_project(entry, copy):
                target.mkdir()
                waiting.append((entry.path, target))
            elif copies < _MOST_COPIES and _is_copied(entry, copied):
                copies += 1
                copied += entry.stat().st_size
                shutil.copy2(entry.path, target)
            else:
                target.symlink_to(entry.path)


def _borrow_objects(objects: str, copy: Path) -> None:
    """Git reads the objects of the repository through this, and writes new ones into the copy."""
    (copy / "info").mkdir(parents=True)
    (copy / "info" / "alternates").write_text(f"{objects}\n")


def _target(link: os.DirEntry[str], real: Path, copy: Path) -> Path:
    """Where a link of the user's leads to: inside of the project to the same place of the copy."""
    target = Path(os.path.normpath(os.path.join(os.path.dirname(link.path), os.readlink(link.path))))
    return copy / target.relative_to(real) if target.is_relative_to(real) else Path(link.path)


def _scan(folder: str) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:  # may not be read: the script can't read it, either
        return []


def _is_copied(entry: os.DirEntry[str], copied: int) -> bool:
    if not entry.is_file() or not os.access(entry.path, os.R_OK):
        return False
    size = entry.stat().st_size
    return size <= _LARGEST_COPY and copied + size <= _ALL_COPIES


def _is_no_project(folder: os.DirEntry[str], copy: Path) -> bool:
    """A virtual environment: thousands of files that no training writes to. Another file system. Our own copies."""
    environment = os.path.exists(os.path.join(folder.path, "pyvenv.cfg"))
    return environment or os.path.ismount(folder.path) or copy.is_relative_to(folder.path)
