"""Functions of the project's other modules that a script calls: does one of them look at gradients?

`update_logs(model)` between backward and step tells nothing by its name. Where the function can be found on
disk, its body does.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from amp_migrate.files.imports import files_of
from amp_migrate.vocabulary import GRADIENT_CLIPS


class Helpers:
    """The imported functions of one script; without a path none of them is known."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def use_gradients(self, dotted: str) -> bool:
        """True where the function that `dotted` imports (`.utils.log_norms`) is found, and reads gradients.

        A function that also makes a backward or a step of its own is a training step, not a use.
        """
        module, _, name = dotted.rpartition(".")
        if self._path is None or not module.strip("."):
            return False
        bare = module.lstrip(".")
        level = len(module) - len(bare)
        # `from . import utils` and `from ..utils import x` are both spelled `..utils` in a dotted name.
        for depth in {level, max(level - 1, 0)} if level else {0}:
            for file in files_of(self._path, depth, bare.split(".")):
                return name in _gradient_functions(file)
        return False


@cache
def _gradient_functions(file: Path) -> frozenset[str]:
    try:
        module = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    functions = [node for node in module.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return frozenset(function.name for function in functions if _reads_gradients(function))


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
