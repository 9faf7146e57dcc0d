"""The bytes of a file that somebody asked for."""

from __future__ import annotations

import stat
from pathlib import Path


class NoRegularFile(OSError):
    """A pipe, a socket or a device: reading it may take for ever."""

    def __init__(self) -> None:
        super().__init__("it is no regular file; standard input is read by the name -")


def read_regular(file: Path) -> bytes:
    """What a file holds. Raises OSError."""
    if not stat.S_ISREG(file.stat().st_mode):
        raise NoRegularFile
    return file.read_bytes()


def read_if_there(file: Path) -> bytes:
    """What a file holds that nobody asked for: nothing, where it cannot be read."""
    try:
        return read_regular(file)
    except OSError:
        return b""
