"""Files that import each other, directly or through others: no unit ever grows beyond them.

They are found by words, over all files of a project: that costs a hundredth of what parsing them would.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

from amp_migrate.files.imports import canonical, split
from amp_migrate.vocabulary import IMPORTERS

_GAP = rb"(?:[ \t\f]|\\\r?\n)*"
_LINE = rb"(?:[^\r\n\\;]|\\\r?\n)*"
# Wherever the words stand, texts and comments too: what is connected without need costs a little time, the opposite
# may cost a unit one of its files.
_IMPORT = re.compile(
    rb"\bfrom\b%(gap)s([.\w\x80-\xff]+)%(gap)simport\b%(gap)s(\((?:[\w\x80-\xff\s,\\]|#[^\r\n]*)*\)|%(line)s)"
    rb"|\bimport\b(%(line)s)" % {b"gap": _GAP, b"line": _LINE}
)
_BY_NAME = re.compile(rb"""(?:%s)\s*\(\s*[a-zA-Z]*["']+([.\w\x80-\xff]+)""" % "|".join(sorted(IMPORTERS)).encode())
_LINE_OF_COMMENT = re.compile(rb"^[ \t]*#[^\r\n]*", re.MULTILINE)
_COMMENT = re.compile(rb"#[^\r\n]*")
_NAME = re.compile(rb"[.\w\x80-\xff]+")


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
    for module, names, modules in _IMPORT.findall(_LINE_OF_COMMENT.sub(b"", source)):
        listed = (_NAME.search(part) for part in _COMMENT.sub(b"", modules).split(b","))
        found = [_file_of(file, one[0]) for one in listed if one is not None]
        if module:
            found += _from(file, module, _NAME.findall(_COMMENT.sub(b"", names)), folders)
        yield from filter(None, found)
    yield from filter(None, (_file_of(file, module) for module in _BY_NAME.findall(source)))


def _from(file: Path, module: bytes, names: list[bytes], folders: Container[bytes]) -> Iterator[Path | None]:
    """`from module import names`: of a package, and of a folder, a name may be a module."""
    found = _file_of(file, module)
    yield found
    first = module.partition(b".")[0]
    may_be_folder = first in folders or not first
    if found.name == "__init__.py" if found is not None else may_be_folder:
        dot = b"" if module.endswith(b".") else b"."
        yield from (_file_of(file, module + dot + name) for name in names)


def _file_of(file: Path, module: bytes) -> Path | None:
    known = split(canonical(file, module.decode("utf-8", "replace")))
    return known[0] if known is not None else None
