"""Which changed files are judged, and which of them together: those of a program that speaks of mixed precision."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache

from amp_migrate.check.proof.program import File, Program
from amp_migrate.judge.mixed_precision import sets_it_up, speaks_of_it

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import\b[ \t]*(\([^)]*\)|[^\n;]*)|import[ \t]+([^\n;]+))", re.MULTILINE
)
_COMMENT = re.compile(rb"#[^\n]*")
_INSTALLED = frozenset((*sys.stdlib_module_names, "torch"))

_Direct = Callable[[str], frozenset[str]]  # what a file imports itself


class _Imports:
    """What the files of a tree import from each other."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self._program = Program(sources)

    def direct(self, path: str) -> frozenset[str]:
        """The files that a file imports itself; none for one that is not in the tree."""
        file = self._program.files.get(path)
        found = {there.path for name in _names(file) if (there := self._module(name, file))} if file is not None else ()
        return frozenset(found) - {path}

    def _module(self, dotted: str, near: File) -> File | None:
        """The file of a module that is imported; relative imports begin with a dot for each level."""
        full = near.absolute(dotted)
        if not full or (full == dotted and full.partition(".")[0] in _INSTALLED):
            return None
        return self._program.module(full, near)


def _names(file: File) -> Iterator[str]:
    text = _COMMENT.sub(b"", file.source.replace(b"\\\n", b" "))
    for base, names, modules in _IMPORT.findall(text):
        for one in (names or modules).strip(b"() \t\r\n").split(b","):
            name = one.split()[0].decode("ascii", "replace") if one.split() else ""
            if not base:
                yield name
            elif name and name != "*":
                package = base.decode("ascii", "replace")
                yield f"{package}{'' if package.endswith('.') else '.'}{name}"
        if base:
            yield base.decode("ascii", "replace")


def groups(before: Mapping[str, bytes], after: Mapping[str, bytes], changed: Collection[str]) -> list[list[str]]:
    """The changed files that are judged, those together that one program may run, in the order of their paths; each
    group with what has not changed and sets mixed precision up for its files.
    """
    sides = [_Imports(before), _Imports(after)]
    direct: _Direct = cache(lambda path: sides[0].direct(path) | sides[1].direct(path))
    reached = {path: _reached(path, direct) for path in changed}
    speaking = {path for path in changed if any(speaks_of_it(side.get(path, b"")) for side in (before, after))}
    judged = {
        path
        for path in changed
        if path in speaking or speaking & reached[path] or any(path in reached[one] for one in speaking)
    }
    others = {path for path in after if path not in changed and sets_it_up(after[path])}
    found: list[set[str]] = []
    for path in sorted(judged):
        own = {path, *(judged & reached[path])}
        joined = [one for one in found if one & own]
        found = [*(one for one in found if not one & own), own.union(*joined)]
    beside = {one: direct(one) for one in others}
    return sorted(sorted({*one, *_beside(one, beside, direct)}) for one in found)


def _beside(group: set[str], others: Mapping[str, frozenset[str]], direct: _Direct) -> set[str]:
    imported = {there for path in group for there in direct(path)}
    return {path for path, imports in others.items() if path in imported or imports & group}


def _reached(start: str, direct: _Direct) -> set[str]:
    """The files that one imports, directly or through others."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = direct(waiting.pop()) - found
        found |= new
        waiting += new
    return found
