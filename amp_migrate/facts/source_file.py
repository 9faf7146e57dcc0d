"""One file of a unit."""

from __future__ import annotations

import dataclasses

import libcst as cst


@dataclasses.dataclass(frozen=True, eq=False)
class SourceFile:
    """A parsed file: its path, and the name that imports of it resolve to (its path without `.py`)."""

    module: cst.Module
    path: str = ""
    name: str = "<module>"  # nothing that is imported resolves to it
