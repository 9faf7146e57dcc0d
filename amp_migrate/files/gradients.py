"""Code on disk that trains, looks at gradients, or speaks of them."""

from __future__ import annotations

import ast
from pathlib import Path

from amp_migrate.files.contents import definitions_in, imported_names
from amp_migrate.files.syntax import names_in
from amp_migrate.models import traits
from amp_migrate.vocabulary import GRADIENT_CLIPS

# Words in the names of what is stepped, and is no optimizer.
_NO_OPTIMIZER = ("sched", "prof", "env")


def trains(file: Path, function: ast.AST, within: frozenset[ast.AST] = frozenset()) -> bool:
    """True for a function of a file with a backward, or a step of something that is no scheduler, profiler or
    environment, nor a part of its own object that only counts; `within` are the functions that step it as a part.
    """
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    methods = [one for one in called if isinstance(one, ast.Attribute)]
    within |= {function}
    return any(
        one.attr == "backward" or (_steps(one) and not _steps_a_part(file, function, one, within)) for one in methods
    )


def _steps(method: ast.Attribute) -> bool:
    receiver = ast.unparse(method.value).lower()
    return method.attr == "step" and not any(word in receiver for word in _NO_OPTIMIZER)


def _steps_a_part(file: Path, function: ast.AST, method: ast.Attribute, within: frozenset[ast.AST]) -> bool:
    """True for `self.phases[i].step()` where `self.phases = [Phase(0, 1), Phase(1, 0)]`, of a class of this file whose
    own step trains nothing.
    """
    receiver = method.value.value if isinstance(method.value, ast.Subscript) else method.value
    definitions = definitions_in(file)
    owner = next((one for one in definitions.values() if isinstance(one, ast.ClassDef) and function in one.body), None)
    if owner is None or not isinstance(receiver, ast.Attribute):
        return False
    held = ast.unparse(receiver)
    given = [
        node.value
        for node in ast.walk(owner)
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == held for target in node.targets)
    ]
    parts = [part for value in given for part in (value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value])]
    made = [ast.unparse(part.func) if isinstance(part, ast.Call) else "" for part in parts]
    steps = [definitions.get(f"{name}.step") for name in made]
    return bool(steps) and all(one is not None and one not in within and not trains(file, one, within) for one in steps)


def reads_gradients(file: Path, function: ast.AST) -> bool:
    """True for a function of a file that clips gradients, or reads them for anything else than to clear them."""
    nodes = list(ast.walk(function))
    named = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    imported = imported_names(file)
    named |= {imported.get(node.id, node.id).rpartition(".")[2] for node in nodes if isinstance(node, ast.Name)}
    cleared = {
        id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in traits.named("clearing")
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
    names = attributes | names_in(definition)
    names -= {"no_grad", "enable_grad", "set_grad_enabled", "requires_grad", "requires_grad_"}
    words = ("grad", "norm", "clip", "backward", "hook")
    return "step" in attributes or any(word in name.lower() for name in names for word in words)
