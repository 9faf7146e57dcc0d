"""Which files a pattern of the configuration means."""

from __future__ import annotations

import dataclasses
import os
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath


@dataclasses.dataclass(frozen=True)
class Patterns:
    """Patterns with `*`, `?` and `[...]` for paths below the folder `root`.

    One with a slash is for the whole path, one without for any part of it; what matches a folder means all in it.
    """

    root: Path
    patterns: tuple[str, ...]

    def match(self, path: str | Path) -> bool:
        """True where one of the patterns means this file, or a folder above it."""
        try:
            below = PurePosixPath(Path(os.path.relpath(os.path.realpath(path), self.root)).as_posix())
        except ValueError:
            return False  # another drive
        return any(_matches(pattern, part) for pattern in self.patterns for part in (below, *below.parents))


def _matches(pattern: str, part: PurePosixPath) -> bool:
    plain = pattern.rstrip("/").removeprefix("./")
    return fnmatchcase(str(part) if "/" in plain else part.name, plain)
