"""What was asked for, and the project around it: read and indexed once for all stages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from amp_migrate.processes import Workers

if TYPE_CHECKING:
    from amp_migrate.files.torch_version import Spelling
    from amp_migrate.units.index import Index
    from amp_migrate.units.tie import Tie


class Workspace:
    """`named` are the files and folders that were asked for, `sources` the files in them, as they were given; `torch`
    is the oldest one to be supported, None where the projects of the files say it. `workers` do what takes long.

    Nothing else is read, or imported, before it is asked for: where no file is of interest, the start is most of the
    time.
    """

    def __init__(
        self,
        named: list[Path],
        sources: Mapping[Path, bytes],
        torch: tuple[int, int] | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.sources = sources
        self.workers = workers or Workers()
        self._torch = torch
        self._named = named
        self._indexes: dict[str, Index] = {}

    def index(self, tie: Tie | None = None) -> Index:
        """The units of the project by what ties them, else by apex.amp; raises FileNotFoundError for a path that is
        gone.
        """
        from amp_migrate.units.index import Index
        from amp_migrate.units.tie import APEX_AMP

        tie = tie or APEX_AMP
        if tie.title not in self._indexes:
            self._indexes[tie.title] = Index(self._universe, self._contents, in_words, tie)
        return self._indexes[tie.title]

    def after(self, outputs: Mapping[Path, bytes]) -> Workspace:
        """The same project with other contents of some files."""
        if not outputs:
            return self
        other = Workspace(self._named, {**self.sources, **outputs}, self._torch, self.workers)
        other._universe = self._universe
        return other

    def shown(self, file: Path) -> str:
        """A path as it was given, else as it is shortest."""
        return str(self.given.get(file) or in_words(file))

    def declared_torch(self, file: Path | str) -> tuple[int, int] | None:
        """The oldest torch to be supported; (0, 0) without a lower bound, None where nothing says so."""
        from amp_migrate.files.torch_version import declared_torch

        return self._torch or declared_torch(Path(file))

    def oldest_torch(self, file: Path) -> tuple[int, int] | None:
        """The oldest torch to be supported; where nothing says so, the one that is installed here."""
        from amp_migrate.files.torch_version import oldest_torch

        return oldest_torch(file, self._torch)

    def spelling_in(self, file: Path) -> Spelling:
        """How native AMP is spelled in the unit that begins with a file, and why."""
        from amp_migrate.files.torch_version import spelling_in

        return spelling_in(file, self._torch)

    @cached_property
    def given(self) -> dict[Path, Path]:
        """How each of the sources was given, by the file itself."""
        return {real(path): path for path in self.sources}

    def apart(self, files: Iterable[Path]) -> list[list[Path]]:
        """Some of the sources, apart where they cannot have to do with each other."""
        from amp_migrate.units.islands import islands

        return islands(files, {file: self.index().source(file) for file in self._universe})

    @cached_property
    def _contents(self) -> dict[Path, bytes]:
        return {file: self.sources[path] for file, path in self.given.items()}

    @cached_property
    def _universe(self) -> list[Path]:
        """The files that imports connect with the sources: one file costs its program, not the project."""
        from amp_migrate.files.read import read_if_there
        from amp_migrate.units.islands import island_of
        from amp_migrate.units.universe import universe_of

        files = universe_of(self._named, self._contents)
        known = self._contents
        if known.keys() >= set(files):
            return files
        contents = {file: known[file] if file in known else read_if_there(file) for file in files}
        return island_of(known, contents)


def real(path: str | Path) -> Path:
    """The file itself, however it is called."""
    return Path(os.path.realpath(path))


def in_words(file: Path) -> str:
    """Relative to the current folder where it lies below it."""
    relative = os.path.relpath(file)
    return str(file) if relative.startswith(os.pardir) else relative
