"""What a revision did not have yet."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path


class GitError(Exception):
    """Git cannot tell; the message is its own."""


def changed_since(revision: str, folder: Path) -> set[str]:
    """The real paths of the files in the repository of a folder that were changed or added since a revision, whether
    committed or not. Of a branch that has gone on since, the point where this one left it counts. Raises GitError.
    """
    root = Path(_git(folder, "rev-parse", "--show-toplevel").decode(errors="surrogateescape").rstrip("\n"))
    named = f"{revision}^{{commit}}"
    commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", named).decode().strip()
    with contextlib.suppress(GitError):  # no common history, in a shallow clone say: the two trees are compared
        commit = _git(root, "merge-base", commit, "HEAD").decode().strip()
    changed = _git(root, "diff", "--name-only", "--no-renames", "-z", commit, "--")
    added = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return {os.path.realpath(root / os.fsdecode(name)) for name in (changed + added).split(b"\0") if name}


def _git(folder: Path, *arguments: str) -> bytes:
    try:
        return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True).stdout
    except OSError as error:
        raise GitError(f"git does not run: {error}") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise GitError(said or f"git {arguments[0]} failed: there is no such revision") from None
