"""Files that import each other, directly or through others: no unit ever grows beyond them.

They are found by words, over all files of a project: that costs a hundredth of what parsing them would.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cached_property
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
_WORD = re.compile(rb"[\w\x80-\xff]+")


def islands(seeds: Iterable[Path], contents: Mapping[Path, bytes]) -> list[list[Path]]:
    """Some files, apart where no chain of imports between files of the project connects them; in their order.

    `contents` has all files of the project, by their resolved paths.
    """
    imports = _Imports(contents)
    roots: dict[Path, Path] = {}
    for file in contents:
        for imported in imports.of(file):
            roots[_root(imported, roots)] = _root(file, roots)
    found: dict[Path, list[Path]] = {}
    for seed in seeds:
        found.setdefault(_root(seed.resolve(), roots), []).append(seed)
    return list(found.values())


def island_of(seeds: Iterable[Path], contents: Mapping[Path, bytes]) -> list[Path]:
    """All files that a chain of imports connects with one of some resolved files, and these; in path order.

    It looks at the imports of these files alone, and of others that name one of them where they import: whoever has one
    file open in an editor does not wait for the rest of a large project.
    """
    imports = _Imports(contents)
    found = set(seeds)
    waiting = list(found)
    while waiting:
        file = waiting.pop()
        importers = [one for one in imports.naming(file) if one not in found and file in imports.of(one)]
        new = {*imports.of(file), *importers} - found
        found |= new
        waiting += new
    return sorted(found)


class _Imports:
    """The imports between the files of a project, found when they are asked for."""

    def __init__(self, contents: Mapping[Path, bytes]) -> None:
        self._contents = contents
        # The names of all folders: what an import may begin with, where it is no file.
        self._folders = {os.fsencode(name) for folder in {file.parent for file in contents} for name in folder.parts}
        self._of: dict[Path, set[Path]] = {}

    def of(self, file: Path) -> set[Path]:
        """The files of the project that a file imports, and the package that it is in."""
        if file not in self._of:
            imported = {*_imported(file, self._contents[file], self._folders), file.parent / "__init__.py"}
            self._of[file] = {one for one in imported if one in self._contents}
        return self._of[file]

    def naming(self, file: Path) -> Iterator[Path]:
        """The files that may import one: they have its name where they import, or are in its package."""
        is_package = file.name == "__init__.py"
        yield from self._by_word.get(os.fsencode(file.parent.name if is_package else file.stem), ())
        if is_package:
            below = os.path.join(file.parent, "")
            yield from (other for other in self._contents if str(other).startswith(below))

    @cached_property
    def _by_word(self) -> dict[bytes, list[Path]]:
        """The files by the words in their imports."""
        found: dict[bytes, list[Path]] = {}
        for file, source in self._contents.items():
            for word in set(_WORD.findall(_said(source))):
                found.setdefault(word, []).append(file)
        return found


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


def _said(source: bytes) -> bytes:
    """What stands in the imports of a file."""
    said = [part for found in _IMPORT.findall(_LINE_OF_COMMENT.sub(b"", source)) for part in found]
    return b" ".join([*said, *_BY_NAME.findall(source)])


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
