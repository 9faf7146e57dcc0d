"""The byte search that decides, before any parsing, that a file holds no source form.

It imports nothing but `re`, so that a tree with nothing to do costs reading its files and no more.
"""

from __future__ import annotations

import re

IMPORTS_APEX = re.compile(rb"\b(?:from|import)[ \t]+apex\b|\bimport\b[^\n#]*\bapex\b|import_module\([^)]*apex")


def line_of_apex_import(source: bytes) -> int | None:
    """The line (from 1) of the first import of apex, as far as bytes tell; None without one."""
    found = IMPORTS_APEX.search(source) if b"apex" in source else None
    return source.count(b"\n", 0, found.start()) + 1 if found is not None else None


def may_hold_apex_amp(source: bytes) -> bool:
    """False only for files that certainly use no apex.amp."""
    return b"apex" in source and b"amp" in source and IMPORTS_APEX.search(source) is not None
