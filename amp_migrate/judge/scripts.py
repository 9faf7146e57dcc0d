"""The files of one side as programs: of a notebook the script of its cells."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from amp_migrate.files.notebook import Notebook, NotebookError, Place
from amp_migrate.judge.mixed_precision import speaks_of_it


class Scripts:
    """`sources` are the programs by path; `broken` says of notebooks why they cannot be read. Of notebooks that neither
    speak of mixed precision nor of one of the `words`, nothing is read.
    """

    def __init__(self, files: Mapping[str, bytes], words: Collection[bytes]) -> None:
        self.sources: dict[str, bytes] = {}
        self.broken: dict[str, str] = {}
        self._notebooks: dict[str, Notebook] = {}
        for path, raw in files.items():
            is_notebook = path.endswith(".ipynb")
            self.sources[path] = b"" if is_notebook else raw
            if is_notebook and (speaks_of_it(raw) or any(word in raw for word in words)):
                self._read(path, raw)

    def _read(self, path: str, raw: bytes) -> None:
        try:
            self._notebooks[path] = Notebook(raw)
        except NotebookError as error:
            self.broken[path] = str(error)
        else:
            self.sources[path] = self._notebooks[path].script

    def place(self, path: str, line: int) -> Place | None:
        """Where a line of the script of a notebook stands; None for other files."""
        notebook = self._notebooks.get(path)
        return notebook.place(line) if notebook is not None else None
