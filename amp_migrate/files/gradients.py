"""Code on disk that trains, looks at gradients, or speaks of them."""

from __future__ import annotations

import ast
from pathlib import Path

from amp_migrate.files.contents import imported_names
from amp_migrate.vocabulary import GRADIENT_CLIPS

# Words in the names of what is stepped, and is no optimizer.
_NO_OPTIMIZER = ("sched", "prof", "env")


def trains(function: ast.AST) -> bool:
    """True for a function with a backward, or a step of something that is no scheduler, profiler or environment."""
    methods = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(method.attr == "backward" or _steps(method) for method in methods if isinstance(method, ast.Attribute))


def _steps(method: ast.Attribute) -> bool:
    receiver = ast.unparse(method.value).lower()
    return method.attr == "step" and not any(word in receiver for word in _NO_OPTIMIZER)


def reads_gradients(file: Path, function: ast.AST) -> bool:
    """True for a function of a file that clips gradients, or reads them for anything else than to clear them."""
    nodes = list(ast.walk(function))
    named = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    imported = imported_names(file)
    named |= {imported.get(node.id, node.id).rpartition(".")[2] for node in nodes if isinstance(node, ast.Name)}
    cleared = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr in ("zero_", "detach_", "requires_grad_")
    }
    return bool(named & GRADIENT_CLIPS) or any(
        isinstance(node, ast.Attribute)
        and node.attr == "grad"
        and isinstance(node.ctx, ast.Load)
        and id(node) not in cleared
        and not (isinstance(node.value, ast.Name) and node.value.id == "autograd")
        for node in nodes
    )


def speaks_of_gradients(definition: ast.AST) -> bool:
    """True where a name in the code may be about gradients."""
    attributes = {node.attr for node in ast.walk(definition) if isinstance(node, ast.Attribute)}
    names = attributes | {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    names -= {"no_grad", "enable_grad", "set_grad_enabled", "requires_grad", "requires_grad_"}
    words = ("grad", "norm", "clip", "backward", "hook")
    return "step" in attributes or any(word in name.lower() for name in names for word in words)
