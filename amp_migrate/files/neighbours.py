"""Local modules that a script imports, as far as they can be found on disk.

A script alone may look whole while its helper module calls `amp.state_dict()`: then both are one unit, and
migrating the script would leave the helper with an apex that was never initialised.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

_MOST_FILES = 400
_USES = re.compile(rb"\bamp\s*\.\s*(initialize|scale_loss|state_dict|load_state_dict|master_params)\s*\(")
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
                yield from _files_of(path, 0, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".") if node.module else []
            yield from _files_of(path, node.level, parts)
            for alias in node.names:
                yield from _files_of(path, node.level, [*parts, alias.name])


def _files_of(path: Path, level: int, parts: list[str]) -> Iterator[Path]:
    """Relative imports from the package; absolute ones from the script's folder and those above it."""
    if not parts:
        return
    if level:
        folder = path.parent
        for _ in range(level - 1):
            folder = folder.parent
        roots = [folder]
    else:
        roots = [path.parent, *_project_folders(path)]
    for root in roots:
        base = root.joinpath(*parts)
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if os.path.isfile(file):
                yield file
                return


def _project_folders(path: Path) -> Iterator[Path]:
    """The folders above a script, up to the repository's root (or three, outside of a repository)."""
    for depth, folder in enumerate(path.resolve().parent.parents):
        if os.path.exists(folder / ".git") or depth == 2:
            yield folder
            return
        yield folder
