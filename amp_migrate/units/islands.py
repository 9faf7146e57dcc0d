"""Files that import each other, directly or through others: no unit ever grows beyond them.

They are found by words, over all files of a project: that costs a hundredth of what parsing them would.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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
    roots: dict[Path, Path] = {}
    for file, source in contents.items():
        for imported in {*_imported(file, source), file.parent / "__init__.py"}:
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


def _imported(file: Path, source: bytes) -> Iterator[Path]:
    for dotted in {name.decode("utf-8", "replace") for name in _names(source)}:
        known = split(canonical(file, dotted))
        if known is not None:
            yield known[0]


def _names(source: bytes) -> Iterator[bytes]:
    """What is imported: every module, and every name in one, which may be a module, too."""
    for module, names in _FROM.findall(source):
        yield module
        dot = b"" if module.endswith(b".") else b"."
        yield from (module + dot + name for name in _NAME.findall(_COMMENT.sub(b"", names)))
    for names in _IMPORT.findall(source):
        yield from (part.split()[0] for part in _COMMENT.sub(b"", names).split(b",") if part.split())
