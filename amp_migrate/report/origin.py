"""How a page came about: by which version and command, from which commit, when.

Pages are given it. They read no clock and no repository, so that the same run gives the same page.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Iterable
from datetime import datetime
from html import escape
from pathlib import Path

from amp_migrate import __version__
from amp_migrate.files.git import GitError, git

_SOURCES = (b".py", b".ipynb")


@dataclasses.dataclass(frozen=True)
class Origin:
    """In words. `command` can be pasted into a shell; `commit` is empty where there is no git, `time` is ISO 8601."""

    command: str
    commit: str
    time: str
    version: str = __version__

    def render(self) -> str:
        """As HTML: terms and what they are."""
        terms = {
            "amp-migrate": escape(self.version),
            "command": f"<code>{escape(self.command)}</code>",
            "commit": f"<code>{escape(self.commit)}</code>" if self.commit else "",
            "time": f'<time datetime="{escape(self.time)}">{escape(self.time)}</time>',
        }
        rows = "".join(f"<div><dt>{term}</dt><dd>{what}</dd></div>" for term, what in terms.items() if what)
        return f'<dl class="origin">{rows}</dl>'


def origin_of(paths: Iterable[Path]) -> Origin:
    """Of this process, which looks at these files and folders. To be asked before any of them is written."""
    folders = {path if path.is_dir() else path.parent: None for path in paths}
    commits = dict(filter(None, map(_commit, folders)))
    alone = len(commits) == 1
    return Origin(
        command=shlex.join(["amp-migrate", *sys.argv[1:]]),
        commit=", ".join(commit if alone else f"{root.name} {commit}" for root, commit in commits.items()),
        time=datetime.now().astimezone().isoformat(timespec="seconds"),
    )


def _commit(folder: Path) -> tuple[Path, str] | None:
    """The root of a repository, and its commit. A page beside the sources is no change, but a new source is one."""
    try:
        root, commit = git(folder, "rev-parse", "--show-toplevel", "HEAD").decode(errors="replace").splitlines()
        status = git(folder, "--no-optional-locks", "status", "--porcelain", "--untracked-files=all", "-z")
    except (GitError, ValueError):  # no repository, or one without a commit
        return None
    changed = any(entry and (not entry.startswith(b"??") or entry.endswith(_SOURCES)) for entry in status.split(b"\0"))
    return Path(root), f"{commit} + changes" if changed else commit
