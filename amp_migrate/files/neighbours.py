"""Local modules that a script imports, as far as they can be found on disk.

A script alone may look whole while its helper module calls `amp.state_dict()`: then both are one unit, and
migrating the script would leave the helper with an apex that was never initialised.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.files.imports import files_of

_MOST_FILES = 400
_USES = re.compile(rb"\bamp\s*\.\s*(initialize|scale_loss|state_dict|load_state_dict|master_params)\s*\(")
_CASTS = re.compile(rb"\bamp\s*\.\s*(?:register_)?(?:half|float|promote)_function\b")
_FROM_AMP = re.compile(rb"from\s+apex\s*\.\s*amp\s+import\b")


def dependent_neighbour(path: Path, source: bytes) -> Path | None:
    """A local module, imported directly or through others, that uses apex.amp without setting it up itself.

    None where there is none, or where the modules are not on disk.
    """
    seen = {path.resolve()}
    waiting = [(path, source)]
    while waiting and len(seen) < _MOST_FILES:
        current, content = waiting.pop()
        for file in _imported_files(current, content):
            if file.resolve() in seen:
                continue
            seen.add(file.resolve())
            try:
                found = file.read_bytes()
            except OSError:
                continue
            if _depends_on_setup(found):
                return file
            waiting.append((file, found))
    return None


def _depends_on_setup(source: bytes) -> bool:
    if b"apex" not in source:
        return False
    if _CASTS.search(source):
        return True  # these casts work only where apex was initialised
    uses = {match.decode() for match in _USES.findall(source)}
    return bool(uses) and "initialize" not in uses and b"import" in source and not _FROM_AMP.search(source)


def _imported_files(path: Path, source: bytes) -> Iterator[Path]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from files_of(path, 0, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".") if node.module else []
            yield from files_of(path, node.level, parts)
            for alias in node.names:
                yield from files_of(path, node.level, [*parts, alias.name])
