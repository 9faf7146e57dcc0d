"""A working copy that costs nothing: links to everything, real files only where something changes.

Each run gets one, so that no run sees what another has written (a checkpoint of the original would be resumed by the
migrated script), and no file of the user's is overwritten. The parent makes the mirror; the child, before it writes
to a path, puts a real folder or file in place of the link (`detach`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path


class Mirror:
    """A folder of links to the entries of `real`."""

    def __init__(self, copy: Path, real: Path) -> None:
        self.copy = copy
        self.real = real

    @classmethod
    def make(cls, copy: Path, real: Path, changed: Mapping[Path, bytes]) -> Mirror:
        """Make the folder `copy`; files of `changed` (by their real path) get another content."""
        mirror = cls(copy, real)
        copy.mkdir(parents=True)
        _link_entries(real, copy)
        for path, content in changed.items():
            if path.is_relative_to(real):
                place = mirror.path(path)
                mirror.detach(place.parent)
                place.unlink(missing_ok=True)
                place.write_bytes(content)
                if path.exists():
                    shutil.copymode(path, place)
        return mirror

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
            target = place.resolve()
            if target.is_dir():
                place.unlink()
                place.mkdir()
                _link_entries(target, place)
            elif target.is_file():
                place.unlink()
                if keep:
                    shutil.copy2(target, place)


def _link_entries(real: Path, copy: Path) -> None:
    for entry in os.scandir(real):
        if entry.name != ".git":
            (copy / entry.name).symlink_to(entry.path)
