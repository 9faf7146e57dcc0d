"""Before this process writes to a file of a mirror, the file is detached from the user's.

Python announces what it opens, renames and removes (PEP 578); torch.save writes from C++ and is wrapped.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from pathlib import Path
from typing import Any

import torch

from amp_migrate.verify.mirror import Mirror

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

_busy = threading.local()


def install(mirrors: list[Mirror]) -> None:
    """Watch this process from now on; this can't be undone."""

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            if _writes(mode, flags):
                _detach(mirrors, path, keep=not (isinstance(mode, str) and "w" in mode))
        elif event in _CHANGES:
            for position in _CHANGES[event]:
                _detach(mirrors, args[position], parent=event in _PARENT_ONLY)

    sys.addaudithook(watch)
    save = torch.save

    @functools.wraps(save)
    def detached_save(obj: object, f: Any, *args: Any, **keywords: Any) -> None:
        _detach(mirrors, f, keep=False)
        save(obj, f, *args, **keywords)

    torch.save = detached_save


def _writes(mode: str | None, flags: int) -> bool:
    if mode is not None:
        return any(letter in mode for letter in "wax+")
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))


def _detach(mirrors: list[Mirror], path: object, *, keep: bool = True, parent: bool = False) -> None:
    if getattr(_busy, "now", False) or not isinstance(path, (str, bytes, os.PathLike)):
        return
    _busy.now = True  # detaching opens and links, too
    try:
        place = Path(os.path.abspath(os.fsdecode(path)))
        for mirror in mirrors:
            if place.is_relative_to(mirror.copy):
                mirror.detach(place.parent if parent and place != mirror.copy else place, keep=keep)
    finally:
        _busy.now = False
