"""One file of a unit."""

from __future__ import annotations

import dataclasses

import libcst as cst


@dataclasses.dataclass(frozen=True, eq=False)
class SourceFile:
    """A parsed file: its path, and the name that imports of it resolve to (its path without `.py`).

    Where the module is not what stands in the file, but was made from it, `lines` has the line (from 1) of the file for
    each line of the module.
    """

    module: cst.Module
    path: str = ""
    name: str = "<module>"  # nothing that is imported resolves to it
    lines: tuple[int, ...] = ()
