"""Unified diffs that `git apply` takes, byte for byte."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

_NO_NEWLINE = b"\\ No newline at end of file\n"


def unified_diff(path: str, before: bytes, after: bytes) -> bytes:
    """The diff of one file, with a/ and b/ in front of its path relative to the current folder."""
    name = _relative(path)
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        _lines(before),
        _lines(after),
        os.fsencode(f"a/{name}"),
        os.fsencode(f"b/{name}"),
        lineterm=b"\n",
    )
    return b"".join(line if line.endswith(b"\n") else line + b"\n" + _NO_NEWLINE for line in lines)


def coloured(diff: bytes) -> str:
    """The diff with terminal colours, for people only."""
    text = diff.decode("utf-8", errors="replace")
    return "".join(_coloured_line(line) for line in text.splitlines(keepends=True))


def _coloured_line(line: str) -> str:
    colour = ""
    if line.startswith(("---", "+++")):
        colour = "\033[1m"
    elif line.startswith("@@"):
        colour = "\033[36m"
    elif line.startswith("+"):
        colour = "\033[32m"
    elif line.startswith("-"):
        colour = "\033[31m"
    return f"{colour}{line.rstrip()}\033[0m\n" if colour else line


def _lines(content: bytes) -> list[bytes]:
    """Lines end with LF alone, as in git: a carriage return is part of the line."""
    parts = content.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _relative(path: str) -> str:
    if path == "-":
        return "<stdin>"
    try:
        return Path(os.path.relpath(path)).as_posix()
    except ValueError:
        return Path(path).as_posix()  # another drive
