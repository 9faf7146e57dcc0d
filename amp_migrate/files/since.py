"""What a revision did not have yet."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from amp_migrate.files.git import GitError, git


class Since:
    """The changes in the repository of a folder since a revision, committed or not. Of a branch that has gone on since,
    the point where this one left it counts. Raises GitError.
    """

    def __init__(self, revision: str, folder: Path) -> None:
        self.root = Path(git(folder, "rev-parse", "--show-toplevel").decode(errors="surrogateescape").rstrip("\n"))
        named = f"{revision}^{{commit}}"
        commit = git(self.root, "rev-parse", "--verify", "--quiet", "--end-of-options", named).decode().strip()
        with contextlib.suppress(GitError):  # no common history, in a shallow clone say: the two trees are compared
            commit = git(self.root, "merge-base", commit, "HEAD").decode().strip()
        self.commit = commit

    def names(self) -> set[str]:
        """The files that were changed, added or deleted, by their paths in the repository. Raises GitError."""
        changed = git(self.root, "diff", "--name-only", "--no-renames", "-z", self.commit, "--")
        added = git(self.root, "ls-files", "--others", "--exclude-standard", "-z")
        return {os.fsdecode(name) for name in (changed + added).split(b"\0") if name}

    def before(self, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of some files at the revision; those that it did not have are left out. Raises GitError."""
        wanted = [name for name in names if "\n" not in name]  # git asks for a line each
        asked = b"".join(b"%s:%s\n" % (self.commit.encode(), os.fsencode(name)) for name in wanted)
        answer = git(self.root, "cat-file", "--batch", given=asked)
        found: dict[str, bytes] = {}
        for name in wanted:
            head, _, answer = answer.partition(b"\n")
            if head.endswith(b" missing"):
                continue
            _, kind, size = head.split(b" ")
            if kind == b"blob":
                found[name] = answer[: int(size)]
            answer = answer[int(size) + 1 :]
        return found


def changed_since(revision: str, folder: Path) -> set[str]:
    """The real paths of the files in the repository of a folder that were changed or added since a revision. Raises
    GitError.
    """
    since = Since(revision, folder)
    return {os.path.realpath(since.root / name) for name in since.names()}
