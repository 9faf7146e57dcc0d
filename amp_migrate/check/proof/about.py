"""Which functions have anything to do with precision: erasure finds nothing in all others, and need not look there."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from amp_migrate.check.proof.flow import Flow
from amp_migrate.check.proof.kinds import ABOUT_AMP
from amp_migrate.check.proof.program import File, Program, Scope

_PACKAGES = re.compile(r"apex\b|torch\.(.+\.)?(amp|half|float16|autocast|HalfTensor)\b|contextlib\.nullcontext$")


def about_precision(program: Program, flow: Flow, known: Collection[str]) -> set[Scope]:
    """The functions with a word of mixed precision in their text, those that are `known` to hold such values among
    them, what may call these functions, and all modules.
    """
    words = {*ABOUT_AMP, *known, *(word for file in _with_imported(program, flow) for word in _aliases(file))}
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(words)))})\b")
    found = {one for one in flow.functions if not one.name or _is_open(one.file) or pattern.search(_text(one))}
    waiting = list(found)
    while waiting:
        new = {scope.function for scope, _ in flow.callers.get(waiting.pop(), ())} - found
        found |= new
        waiting += new
    return found


def _text(scope: Scope) -> str:
    node: ast.stmt = scope.node  # type: ignore[assignment]
    return "\n".join(scope.file.lines[node.lineno - 1 : node.end_lineno])


def _is_open(file: File) -> bool:
    """True for a file that has names of Apex, or of another file, that are not written down in it."""
    return any(one.startswith("apex") or file.program.module(one, file) is not None for one in file.stars)


def _with_imported(program: Program, flow: Flow) -> set[File]:
    """The files, and those that they import, which may have names of mixed precision for them."""
    imported = (
        program.module(path, file)
        for file in flow.files
        for scope in file.functions.values()
        for bound in scope.bound.values()
        for path in bound
        if isinstance(path, str)
    )
    return {*flow.files, *(file for file in imported if file is not None and file.tree is not None)}


def _aliases(file: File) -> Iterator[str]:
    """The names that a file has for what is of mixed precision."""
    for scope in (*file.functions.values(), *file.classes):
        for name, bound in scope.bound.items():
            if any(isinstance(one, str) and _PACKAGES.match(file.program.full_name(one, file)) for one in bound):
                yield name
    for _, target, value in file.assigned:
        if isinstance(target, (ast.Name, ast.Attribute)) and _PACKAGES.match(file.dotted(value) or ""):
            yield target.id if isinstance(target, ast.Name) else target.attr
