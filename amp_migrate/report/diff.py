"""Unified diffs that `git apply` takes, byte for byte."""

from __future__ import annotations

import os
from pathlib import Path

from amp_migrate.line_matcher import hunks_of

_NO_NEWLINE = b"\\ No newline at end of file\n"


def unified_diff(path: str, before: bytes, after: bytes) -> bytes:
    """The diff of one file. Its path is relative to the root of the repository, as in git's own diffs: only so
    does `git apply` find it from every folder; outside of a repository it is relative to the current folder.
    """
    name = repository_path(path)
    old, new = _quoted(f"a/{name}"), _quoted(f"b/{name}")
    tab = b"\t" if " " in name else b""  # ends the name for patch(1), as git does
    header = b"--- " + old + tab + b"\n+++ " + new + tab + b"\n"
    lines = [line.encode("latin-1") for line in hunks_of(_lines(before), _lines(after))]
    body = b"".join(line if line.endswith(b"\n") else line + b"\n" + _NO_NEWLINE for line in lines)
    return b"diff --git " + old + b" " + new + b"\n" + (header if lines else b"") + body


def coloured(diff: str) -> str:
    """The diff with terminal colours, for people only."""
    return "".join(_coloured_line(line) for line in diff.splitlines(keepends=True))


def _coloured_line(line: str) -> str:
    colour = ""
    if line.startswith(("---", "+++", "diff --git")):
        colour = "\033[1m"
    elif line.startswith("@@"):
        colour = "\033[36m"
    elif line.startswith("+"):
        colour = "\033[32m"
    elif line.startswith("-"):
        colour = "\033[31m"
    return f"{colour}{line.rstrip()}\033[0m\n" if colour else line


def _lines(content: bytes) -> list[str]:
    """Lines end with LF alone, as in git: a carriage return is part of the line. Each byte is a character."""
    parts = content.decode("latin-1").split("\n")
    lines = [f"{part}\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def repository_path(path: str) -> str:
    """A path relative to the root of its repository, as git writes it; elsewhere relative to the current folder."""
    if path == "-":
        return "stdin.py"
    real = Path(os.path.realpath(path))  # a link's content is in what it points to
    try:
        return Path(os.path.relpath(real, repository_of(real))).as_posix()
    except ValueError:
        return real.as_posix()  # another drive


def repository_of(real: Path) -> Path:
    """The root of the repository that holds a file; elsewhere the current folder."""
    return next((folder for folder in real.parents if os.path.exists(folder / ".git")), Path.cwd())


def _quoted(name: str) -> bytes:
    """A name as git writes it: in quotes, with escapes, where it holds quotes or control characters."""
    raw = os.fsencode(name)
    if not any(byte < 32 or byte in (34, 92, 127) for byte in raw):
        return raw
    escapes = {9: b"\\t", 10: b"\\n", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
    parts = [escapes.get(byte, b"\\%03o" % byte if byte < 32 or byte == 127 else bytes([byte])) for byte in raw]
    return b'"' + b"".join(parts) + b'"'
