"""Local modules that a script imports, as far as they can be found on disk, and casts in them that only apex makes
right: they belong to no unit, yet without `amp.initialize` they break.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.files.bindings import imported, stars_of
from amp_migrate.files.imports import canonical, split
from amp_migrate.files.read import read_regular

_MOST_FILES = 400
# Registrations of torch's own functions mean the file that makes them: they go with it, or it is refused.
_CASTS = re.compile(rb"\bamp\s*\.\s*(?:register_)?(?:half|float|promote)_function\b(?!\s*\(\s*torch\b)")
_LEVEL = re.compile(rb"""[=!]=\s*["']O[123]["']""")
_HALF = re.compile(rb"\.half\(\s*\)")


def casts_that_need_apex(path: Path, source: bytes) -> tuple[Path, str] | None:
    """A local module, imported directly or through others, whose casts need the setup of this file; what it does.

    None where there is none, or where the modules are not on disk.
    """
    for file, content in local_modules(path, source):
        if _LEVEL.search(content) and _HALF.search(content):
            return file, "casts to half by the level, and autocast has no levels"
        if b"apex" in content and _CASTS.search(content):
            return file, "changes the casts of apex.amp, which work only where this file sets it up"
    return None


def local_modules(path: Path, source: bytes) -> Iterator[tuple[Path, bytes]]:
    """The local files that a script imports, directly or through others, with their content; not the script."""
    seen = {path.resolve()}
    waiting = [(path, source)]
    while waiting and len(seen) < _MOST_FILES:
        for file in imported_files(*waiting.pop()):
            if file in seen:
                continue
            seen.add(file)
            try:
                found = read_regular(file)
            except OSError:
                continue
            yield file, found
            waiting.append((file, found))


def imported_files(path: Path, source: bytes) -> Iterator[Path]:
    """The local files that a script imports itself, by their resolved paths."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for dotted in (*names, *(dotted for _, dotted in imported(node)), *stars_of(node)):
            found = split(canonical(path, dotted))
            if found is not None:
                yield found[0].resolve()
