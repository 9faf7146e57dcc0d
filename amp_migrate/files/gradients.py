"""Code on disk that trains, looks at gradients, or speaks of them.

`update_logs(model)` between backward and step does not say by its name whether it looks at gradients. Its body does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.files.contents import definitions_in, imported_names
from amp_migrate.files.definitions import called_from, definitions
from amp_migrate.files.imports import member, module_name, split
from amp_migrate.files.syntax import names_in
from amp_migrate.models import traits
from amp_migrate.vocabulary import GRADIENT_CLIPS

# Words in the names of what is stepped, and is no optimizer.
_NO_OPTIMIZER = ("sched", "prof", "env")


def uses_gradients(resolved: str) -> bool:
    """True where a function is found and reads gradients, itself or in a function that it calls.

    A function that also makes a backward or a step of its own on the way is a training step, not a use.
    """
    return any(_reads_gradients(*one) for one in called_from(resolved)) and not trains(resolved)


def trains(resolved: str) -> bool:
    """True where a function is found and makes a backward or a step, itself or in a function that it calls."""
    return any(_trains(*one) for one in called_from(resolved))


def spares_gradients(resolved: str) -> bool:
    """True where a function is found, and neither it nor what it names says a word of gradients, and no function that
    it calls reads them.
    """
    found = [definition for _, definition in definitions(resolved, and_what_they_name=True)]
    return bool(found) and not any(map(_speaks_of_gradients, found)) and not uses_gradients(resolved)


def _trains(file: Path, function: ast.AST, within: frozenset[ast.AST] = frozenset()) -> bool:
    """True for a function of a file with a backward, or a step of something that is no scheduler, profiler or
    environment, nor a part of its own object that only counts; `within` are the functions that step it as a part.
    """
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    methods = [one for one in called if isinstance(one, ast.Attribute)]
    within |= {function}
    return any(
        one.attr == "backward" or (one.attr == "step" and _steps(file, function, one, within)) for one in methods
    )


def _steps(file: Path, function: ast.AST, method: ast.Attribute, within: frozenset[ast.AST]) -> bool:
    """True for a `step` of what may be an optimizer, or trains."""
    if _is_no_optimizer(ast.unparse(method.value)):
        return False
    owner = _owner(file, function)
    is_base = isinstance(method.value, ast.Call) and ast.unparse(method.value.func) == "super"
    classes = [*_bases(file, owner)] if is_base and owner is not None else [_full_name(file, method.value)]
    if classes and all(one is not None and _class_only_counts(one, within) for one in classes):
        return False
    return owner is None or not _steps_a_part(file, owner, method, within)


def _is_no_optimizer(name: str) -> bool:
    return any(word in name.lower() for word in _NO_OPTIMIZER)


def _class_only_counts(name: str, within: frozenset[ast.AST]) -> bool:
    """True for a scheduler of torch, and for a class on disk whose own step, or that of its bases, trains nothing."""
    steps = list(definitions(f"{name}.step"))
    if steps:
        return all(one not in within and not _trains(file, one, within) for file, one in steps)
    bases = [base for file, one in definitions(name) if isinstance(one, ast.ClassDef) for base in _bases(file, one)]
    if bases or split(name) is not None:
        return bool(bases) and all(base is not None and _class_only_counts(base, within) for base in bases)
    return _is_no_optimizer(name)


def _bases(file: Path, owner: ast.ClassDef) -> Iterator[str | None]:
    """The full names of the classes that a class is derived from; None where one is not known."""
    for base in owner.bases:
        is_here = isinstance(base, ast.Name) and base.id in definitions_in(file)
        yield member(module_name(file), ast.unparse(base)) if is_here else _full_name(file, base)


def _full_name(file: Path, node: ast.expr) -> str | None:
    """The full name of what a file imports: `lr_scheduler.LambdaLR`."""
    if isinstance(node, ast.Name):
        return imported_names(file).get(node.id)
    above = _full_name(file, node.value) if isinstance(node, ast.Attribute) else None
    return member(above, node.attr) if above is not None and isinstance(node, ast.Attribute) else None


def _owner(file: Path, function: ast.AST) -> ast.ClassDef | None:
    """The class at the top of a file that a function is a method of."""
    classes = (one for one in definitions_in(file).values() if isinstance(one, ast.ClassDef))
    return next((one for one in classes if function in one.body), None)


def _steps_a_part(file: Path, owner: ast.ClassDef, method: ast.Attribute, within: frozenset[ast.AST]) -> bool:
    """True for `self.phases[i].step()` where `self.phases = [Phase(0, 1), Phase(1, 0)]`, of a class of this file whose
    own step trains nothing.
    """
    receiver = method.value.value if isinstance(method.value, ast.Subscript) else method.value
    if not isinstance(receiver, ast.Attribute):
        return False
    held = ast.unparse(receiver)
    given = [
        node.value
        for node in ast.walk(owner)
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == held for target in node.targets)
    ]
    parts = [part for value in given for part in (value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value])]
    made = [ast.unparse(part.func) if isinstance(part, ast.Call) else "" for part in parts]
    steps = [definitions_in(file).get(f"{name}.step") for name in made]
    return bool(steps) and all(one and one not in within and not _trains(file, one, within) for one in steps)


def _reads_gradients(file: Path, function: ast.AST) -> bool:
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


def _speaks_of_gradients(definition: ast.AST) -> bool:
    """True where a name in the code may be about gradients."""
    attributes = {node.attr for node in ast.walk(definition) if isinstance(node, ast.Attribute)}
    names = attributes | names_in(definition)
    names -= {"no_grad", "enable_grad", "set_grad_enabled", "requires_grad", "requires_grad_"}
    words = ("grad", "norm", "clip", "backward", "hook")
    return "step" in attributes or any(word in name.lower() for name in names for word in words)
