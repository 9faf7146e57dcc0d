"""Files that import each other, directly or through others: no unit ever grows beyond them.

They are found by words, over all files of a project: that costs a hundredth of what parsing them would.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

from amp_migrate.files.imports import canonical, split

_BLANK = rb"(?:[ \t]|\\\r?\n)"
_REST = rb"(?:[^\n\\;]|\\\r?\n)*"  # of the line, and of those that continue it
_FROM = re.compile(
    rb"(?:^|[;:])[ \t]*from%s+([.\w]+)%s+import%s*(\([^)]*\)|%s)" % (_BLANK, _BLANK, _BLANK, _REST), re.MULTILINE
)
_IMPORT = re.compile(rb"(?:^|[;:])[ \t]*import%s+(%s)" % (_BLANK, _REST), re.MULTILINE)
_COMMENT = re.compile(rb"#[^\n]*")
_NAME = re.compile(rb"[.\w]+")


def islands(seeds: Iterable[Path], contents: Mapping[Path, bytes]) -> list[list[Path]]:
    """Some files, apart where no chain of imports between files of the project connects them; in their order.

    `contents` has all files of the project, by their resolved paths.
    """
    folders = {os.fsencode(name) for folder in {file.parent for file in contents} for name in folder.parts}
    roots: dict[Path, Path] = {}
    for file, source in contents.items():
        for imported in {*_imported(file, source, folders), file.parent / "__init__.py"}:
            if imported in contents:
                roots[_root(imported, roots)] = _root(file, roots)
    found: dict[Path, list[Path]] = {}
    for seed in seeds:
        found.setdefault(_root(seed.resolve(), roots), []).append(seed)
    return list(found.values())


def _root(file: Path, roots: dict[Path, Path]) -> Path:
    """The file that stands for all that are known to be connected to this one."""
    while (above := roots.get(file, file)) != file:
        roots[file] = roots.get(above, above)
        file = above
    return file


def _imported(file: Path, source: bytes, folders: Container[bytes]) -> Iterator[Path]:
    """The files behind the imports of one; `folders` are the names of all folders."""
    for module, names in _FROM.findall(source):
        found = _file_of(file, module)
        if found is not None:
            yield found
        first = module.partition(b".")[0]
        if found.name == "__init__.py" if found is not None else first in folders or not first:
            dot = b"" if module.endswith(b".") else b"."  # of a package, and of a folder, a name may be a module
            parts = (_file_of(file, module + dot + name) for name in _NAME.findall(_COMMENT.sub(b"", names)))
            yield from filter(None, parts)
    for names in _IMPORT.findall(source):
        modules = (part.split()[0] for part in _COMMENT.sub(b"", names).split(b",") if part.split())
        yield from filter(None, (_file_of(file, module) for module in modules))


def _file_of(file: Path, module: bytes) -> Path | None:
    known = split(canonical(file, module.decode("utf-8", "replace")))
    return known[0] if known is not None else None
