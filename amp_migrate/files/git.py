"""Asking git."""

from __future__ import annotations

import subprocess
from pathlib import Path


class GitError(Exception):
    """Git cannot tell; the message is its own."""


def git(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    """What git prints in a folder. Raises GitError."""
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], input=given, capture_output=True, check=True
        ).stdout
    except OSError as error:
        raise GitError(f"git does not run: {error}") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise GitError(said or f"git {arguments[0]} failed: there is no such revision") from None
