"""Which version of a program was run: the content of its script and of the local modules that the script imports.

A curve belongs to the code that made it. What was run is written down with it, so that it is not shown beside another.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from amp_migrate.files.neighbours import local_modules
from amp_migrate.report.diff import repository_path
from amp_migrate.verify.notebook import cells_as_script


@dataclasses.dataclass(frozen=True)
class Version:
    """`script` is its path in the repository; `files` has a hash of each file, by its path from the script's folder."""

    script: str = ""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def is_of(self, script: Path, contents: Mapping[Path, bytes]) -> bool:
        """True where the files are the same today. `contents` are those that differ from the disk's, by real paths."""
        files = {name: Path(os.path.realpath(script.parent / name)) for name in self.files}
        return bool(files) and all(_today(file, contents) == self.files[name] for name, file in files.items())


def version_of(script: Path, runnable: Path, changed: Mapping[Path, bytes], beside: Iterable[Path] = ()) -> Version:
    """Of the program of a script; `runnable` is the script itself, or what is run in the place of a notebook.

    `changed` has the content of files that differ from the disk's, `beside` are files that belong to it, too.
    """
    source = changed[runnable] if runnable in changed else runnable.read_bytes()
    modules = [file for file, _ in local_modules(runnable, source)]
    hashes = {script.name: _hash(source)}
    for file in {Path(os.path.realpath(one)) for one in (*modules, *beside)} - {Path(os.path.realpath(runnable))}:
        name = Path(os.path.relpath(file, os.path.realpath(script.parent))).as_posix()
        hashes[name] = _hash(changed[file] if file in changed else file.read_bytes())
    return Version(repository_path(str(script)), hashes)


def _today(file: Path, contents: Mapping[Path, bytes]) -> str | None:
    """The hash of a file; None where it is gone. Of a notebook its code counts: outputs come and go."""
    try:
        content = contents[file] if file in contents else file.read_bytes()
        return _hash(cells_as_script(content) if file.suffix == ".ipynb" else content)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
