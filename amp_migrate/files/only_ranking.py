"""Functions that only rank a tensor that they are given, as the accuracy of a classifier does: half ranks like float32.

_, predicted = output.topk(5, 1, True, True)
return (output.argmax(1) == target).sum() / output.size(0)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate import models
from amp_migrate.files.definitions import definitions
from amp_migrate.files.only_reading import parameter


def only_ranks(resolved: str, position: int | str) -> bool:
    """True for a function that is found, and takes nothing of the argument at a position, or under a name, but its
    sizes and the indices of its largest elements.
    """
    found = [one for _, one in definitions(resolved)]
    return bool(found) and all(isinstance(one, ast.FunctionDef) and _only_ranks(one, position) for one in found)


def _only_ranks(function: ast.FunctionDef, position: int | str) -> bool:
    name = parameter(function, position)
    uses = {node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name}
    return name is not None and uses <= {node for one in ast.walk(function) for node in _ranked(one)}


def _ranked(node: ast.AST) -> Iterator[ast.expr]:
    """X of `X.shape`, `X.argmax()`, `X.topk(5)[1]` and `_, places = X.topk(5)`."""
    if isinstance(node, ast.Attribute):
        row = models.method(node.attr)
        if row is not None and row.result in ("number", "integer") and not row.is_a("leaves torch"):
            yield node.value
    call: ast.AST | None = None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == 1:
        call = node.value
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        first = node.targets[0].elts[0]
        call = node.value if isinstance(first, ast.Name) and first.id == "_" else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        row = models.method(call.func.attr)
        if row is not None and row.picks and row.outputs == ("result", "integer"):
            yield call.func.value
