"""Before this process writes to a file of a mirror, the file is detached from the user's.

Python announces what it opens, renames and removes (PEP 578); torch.save writes from C++ and is wrapped.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch

from amp_migrate.verify.mirror import Mirror
from amp_migrate.verify.record import Record

# Events that change a path, with the positions of the paths in their arguments.
_CHANGES = {
    "os.chdir": (0,),
    "os.chmod": (0,),
    "os.link": (1,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.utime": (0,),
    "shutil.rmtree": (0,),
    "sqlite3.connect": (0,),
}
# For these the path itself may be a link of ours, which simply goes.
_PARENT_ONLY = {"os.remove", "os.rename", "os.link", "os.symlink", "os.mkdir"}

_MOST_NOTES = 3


def install(mirrors: list[Mirror], record: Record) -> None:
    """Watch this process from now on; this can't be undone. `record` gets a note of what is written elsewhere."""
    guard = _Guard(mirrors, record)

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            if _writes(mode, flags):
                guard.before_writing(path, keep=not (isinstance(mode, str) and "w" in mode))
        elif event in _CHANGES:
            for position in _CHANGES[event]:
                guard.before_writing(args[position], parent=event in _PARENT_ONLY, changes=event != "os.chdir")

    sys.addaudithook(watch)
    torch.save = _guarded(torch.save, guard)
    torch.jit.save = _guarded(torch.jit.save, guard)


def _guarded(save: Any, guard: _Guard) -> Any:
    @functools.wraps(save)
    def guarded_save(obj: object, f: Any, *args: Any, **keywords: Any) -> Any:
        guard.before_writing(f, keep=False)
        return save(obj, f, *args, **keywords)

    return guarded_save


class _Guard:
    def __init__(self, mirrors: list[Mirror], record: Record) -> None:
        self._mirrors = mirrors
        self._record = record
        self._told: set[Path] = set()
        # Asked for now: the script may come here while tempfile looks for it.
        self._nobodys = (Path(tempfile.gettempdir()), Path("/dev"), Path("/proc"))
        self._busy = threading.local()  # detaching opens and links, too

    def before_writing(self, path: object, *, keep: bool = True, parent: bool = False, changes: bool = True) -> None:
        if getattr(self._busy, "now", False) or not isinstance(path, (str, bytes, os.PathLike)):
            return
        self._busy.now = True
        try:
            place = Path(os.path.abspath(os.fsdecode(path)))
            for mirror in self._mirrors:
                if place.is_relative_to(mirror.copy):
                    mirror.detach(place.parent if parent and place != mirror.copy else place, keep=keep)
                    return
            if changes:
                self._elsewhere(place)
        finally:
            self._busy.now = False

    def _elsewhere(self, place: Path) -> None:
        """A path outside of the mirrors, given whole: in the user's own folder nothing may be written."""
        for mirror in self._mirrors:
            if place.is_relative_to(mirror.real) and not self._is_nobodys(place, mirror.real):
                raise PermissionError(
                    f"{place} is written by its whole path, past the working copy of `amp-migrate verify`, "
                    "which writes to no file of yours: give the script a relative path"
                )
        folder = place.parent
        if not any(place.is_relative_to(one) for one in self._nobodys):
            if folder not in self._told and len(self._told) < _MOST_NOTES:
                self._told.add(folder)
                self._record.notes.append(f"the scripts write to {folder}, outside of their working copy")

    def _is_nobodys(self, place: Path, real: Path) -> bool:
        """Temporary files and devices, where the working directory is a folder above them (/ or /tmp)."""
        return any(place.is_relative_to(one) and one.is_relative_to(real) for one in self._nobodys)


def _writes(mode: str | None, flags: int) -> bool:
    if mode is not None:
        return any(letter in mode for letter in "wax+")
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
