"""What the project's other modules do with what a script hands them, where they can be found on disk.

`update_logs(model)` between backward and step does not say by its name whether it looks at gradients, nor does
`criterion = DiceLoss()` that it computes a binary cross entropy. Their bodies do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from amp_migrate.files.imports import files_of
from amp_migrate.vocabulary import BINARY_CROSS_ENTROPIES, GRADIENT_CLIPS

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Helpers:
    """The imported functions, classes and methods of one script, by dotted name (`.utils.log_norms`,
    `prune.Slimming.add_penalty`); without a path none of them is known.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def source_of(self, dotted: str) -> bytes | None:
        """The file that defines the function or class, None where it is not found."""
        for file, name in self._places(dotted):
            if name in _definitions_in(file):
                return file.read_bytes()
        return None

    def use_gradients(self, dotted: str) -> bool:
        """True where the function is found and reads gradients.

        A function that also makes a backward or a step of its own is a training step, not a use.
        """
        return any(
            not isinstance(definition, ast.ClassDef) and _reads_gradients(definition)
            for definition in self._definitions(dotted)
        )

    def compute_bce(self, dotted: str) -> bool:
        """True where the function or class is found and computes a binary cross entropy, itself or by another
        one of its file, outside of any autocast of its own.
        """
        return any(_computes_bce(definition) for definition in self._definitions(dotted, and_what_they_name=True))

    def _definitions(self, dotted: str, *, and_what_they_name: bool = False) -> Iterator[_Definition]:
        for file, name in self._places(dotted):
            known = _definitions_in(file)
            seen: set[str] = set()
            waiting = [name]
            while waiting:
                name = waiting.pop()
                if name in seen or name not in known:
                    continue
                seen.add(name)
                yield known[name]
                if and_what_they_name:
                    waiting += [node.id for node in ast.walk(known[name]) if isinstance(node, ast.Name)]

    def _places(self, dotted: str) -> Iterator[tuple[Path, str]]:
        bare = dotted.lstrip(".")
        level = len(dotted) - len(bare)
        parts = bare.split(".")
        for end in (len(parts) - 1, len(parts) - 2):
            # `from . import utils` and `from ..utils import x` are both spelled `..utils` in a dotted name.
            for depth in {level, max(level - 1, 0)} if level else {0}:
                files = list(files_of(self._path, depth, parts[:end])) if self._path is not None and end > 0 else []
                if files:
                    yield files[0], ".".join(parts[end:])
                    return


@cache
def _definitions_in(file: Path) -> dict[str, _Definition]:
    try:
        module = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    known: dict[str, _Definition] = {}
    for node in module.body:
        if isinstance(node, _Definition):
            known[node.name] = node
        if isinstance(node, ast.ClassDef):
            known |= {f"{node.name}.{inner.name}": inner for inner in node.body if isinstance(inner, _Definition)}
    return known


def _computes_bce(definition: _Definition) -> bool:
    called = {_called(node) for node in ast.walk(definition) if isinstance(node, ast.Call)}
    return bool(called & BINARY_CROSS_ENTROPIES) and "autocast" not in called


def _reads_gradients(function: ast.AST) -> bool:
    nodes = list(ast.walk(function))
    called = {_called(node) for node in nodes if isinstance(node, ast.Call)}
    if called & {"backward", "step"}:
        return False
    cleared = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr in ("zero_", "detach_", "requires_grad_")
    }
    return bool(called & GRADIENT_CLIPS) or any(
        isinstance(node, ast.Attribute)
        and node.attr == "grad"
        and isinstance(node.ctx, ast.Load)
        and id(node) not in cleared
        and not (isinstance(node.value, ast.Name) and node.value.id == "autograd")
        for node in nodes
    )


def _called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
