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
_LEVEL = re.compile(rb"""[=!]=\s*["']O[123]["']""")
_HALF = re.compile(rb"\.half\(\s*\)")
_FROM_AMP = re.compile(rb"from\s+apex\s*\.\s*amp\s+import\b")


def dependence(path: Path, source: bytes) -> str | None:
    """In words: how a local module, imported directly or through others, needs the setup of this file to be apex's.

    None where none does, or where the modules are not on disk.
    """
    for file, content in local_modules(path, source):
        how = _needs_apex(content)
        if how is not None:
            return f"{file} {how}"
    return None


def local_modules(path: Path, source: bytes) -> Iterator[tuple[Path, bytes]]:
    """The local files that a script imports, directly or through others, with their content; not the script."""
    seen = {path.resolve()}
    waiting = [(path, source)]
    while waiting and len(seen) < _MOST_FILES:
        for file in _imported_files(*waiting.pop()):
            if file.resolve() in seen:
                continue
            seen.add(file.resolve())
            try:
                found = file.read_bytes()
            except OSError:
                continue
            yield file, found
            waiting.append((file, found))


def _needs_apex(source: bytes) -> str | None:
    if _LEVEL.search(source) and _HALF.search(source):
        return "casts to half by the level, and autocast has no levels"
    if b"apex" not in source:
        return None
    if _CASTS.search(source):
        return "changes the casts of apex.amp, which work only where this file sets it up"
    uses = {match.decode() for match in _USES.findall(source)}
    if uses and "initialize" not in uses and b"import" in source and not _FROM_AMP.search(source):
        return "uses apex.amp as well, on what this file sets up"
    return None


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
