"""Which functions certainly do not run a model that they are given: they ask it for its labels, or count its weights.

@staticmethod
def get_labels(model):
    return model.module.labels if Net.is_parallel(model) else model.labels
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.files.bindings import called_name
from amp_migrate.files.contents import Definition
from amp_migrate.files.definitions import base_classes, called_from, definitions, target_of
from amp_migrate.files.imports import member, module_name
from amp_migrate.files.syntax import names_in
from amp_migrate.vocabulary import is_no_forward

_WITHOUT_FUNCTIONS = ("Module", "object")
_HARMLESS = frozenset(dir(builtins)) - {"map", "filter", "setattr", "eval", "exec"}


def only_reads(resolved: str, position: int | str, within: frozenset[str] = frozenset()) -> bool:
    """True for a function that is found, and neither runs nor keeps the argument at a position, or under a name; and
    for a method that a class certainly lacks: to call it raises.
    """
    found = list(definitions(resolved))
    if not found:
        return _is_lacking(*resolved.rpartition(".")[::2])
    return resolved not in within and all(
        isinstance(one, ast.FunctionDef) and _only_reads(file, resolved, one, position, within | {resolved})
        for file, one in found
    )


def _only_reads(
    file: Path, resolved: str, function: ast.FunctionDef, position: int | str, within: frozenset[str]
) -> bool:
    name = parameter(function, position)
    if name is None:
        return False
    names = _derived(function, name)
    for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
        if _root(call.func) in names and not (isinstance(call.func, ast.Attribute) and is_no_forward(call.func.attr)):
            return False
        for place, value in _given(call):
            if not names_in(value) & names or (isinstance(call.func, ast.Name) and call.func.id in _HARMLESS):
                continue
            target = target_of(file, resolved, call.func) if _root(call.func) != "self" else None
            if target is None or place is None or not only_reads(target, place, within):
                return False
    return True


def parameter(function: ast.FunctionDef, position: int | str) -> str | None:
    """The name of a parameter, as who calls the function by its class gives it."""
    decorators = [one.id if isinstance(one, ast.Name) else "" for one in function.decorator_list]
    if decorators not in ([], ["staticmethod"], ["classmethod"]):
        return None
    given = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    if isinstance(position, str):
        return position if position in {*given, *(one.arg for one in function.args.kwonlyargs)} else None
    position += decorators == ["classmethod"]
    return given[position] if position < len(given) else None


def _derived(function: ast.FunctionDef, name: str) -> set[str]:
    """The names that may hold an object, or something of it: what is bound to an expression that names one of them."""
    names = {name}
    bindings = list(_bindings(function))
    while more := {one for targets, value in bindings if names_in(value) & names for one in targets} - names:
        names |= more
    return names


def _bindings(function: ast.AST) -> Iterator[tuple[set[str], ast.AST]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            yield {one for target in node.targets for one in names_in(target)}, node.value
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr, ast.AugAssign)) and node.value is not None:
            yield names_in(node.target), node.value
        elif isinstance(node, (ast.For, ast.comprehension)):
            yield names_in(node.target), node.iter
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield names_in(node.optional_vars), node.context_expr


def _given(call: ast.Call) -> Iterator[tuple[int | str | None, ast.expr]]:
    """The arguments of a call with their places; none is known behind a star."""
    has_star = any(isinstance(one, ast.Starred) for one in call.args)
    yield from ((None if has_star else index, one) for index, one in enumerate(call.args))
    yield from ((one.arg, one.value) for one in call.keywords)


def _root(node: ast.expr) -> str | None:
    """`model` of `model.module.rnns[0]`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_lacking(owner: str, name: str) -> bool:
    """True for a name that a class has not, nor any class that it is made of; torch's module has no functions that are
    called by a class but its methods.
    """
    found = list(definitions(owner))
    return bool(found) and not name.startswith("__") and all(_lacks(file, one, name) for file, one in found)


def _lacks(file: Path, definition: Definition, name: str) -> bool:
    if not isinstance(definition, ast.ClassDef) or definition.keywords or definition.decorator_list:
        return False
    stored = {
        part.id for part in ast.walk(definition) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
    named = {one.name for one in ast.walk(definition) if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    bases = [base for base in definition.bases if ast.unparse(base).rpartition(".")[2] not in _WITHOUT_FUNCTIONS]
    local = [place for place in base_classes(file, definition) if place[1] not in _WITHOUT_FUNCTIONS]
    is_known = len(local) == len(bases) and all(
        _is_lacking(member(module_name(one), base), name) for one, base in local
    )
    return is_known and name not in stored | named


# Which functions run a model that they are given: a vocoder that makes sound of what has been predicted.
#
# def listen(mel, vocoder):
#     with torch.no_grad():
#         wave = vocoder(mel)

_WITHOUT_GRADIENTS = frozenset(("no_grad", "inference_mode"))


def runs_models(resolved: str) -> bool:
    """True where a function is found and runs a model that it is given, itself or in a function that it calls."""
    return any(_runs_what_it_is_given(definition) for _, definition in called_from(resolved))


def _runs_what_it_is_given(definition: ast.AST) -> bool:
    """True for a function that calls one of its parameters without gradients: whatever that is, it is a model."""
    if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    arguments = definition.args
    given = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    is_decorated = any(_is_without_gradients(one) for one in definition.decorator_list)
    places = [definition] if is_decorated else [node for node in ast.walk(definition) if _opens_without_gradients(node)]
    calls = (node.func for place in places for node in ast.walk(place) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id in given for called in calls)


def _opens_without_gradients(node: ast.AST) -> bool:
    return isinstance(node, ast.With) and any(_is_without_gradients(item.context_expr) for item in node.items)


def _is_without_gradients(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and called_name(node) in _WITHOUT_GRADIENTS
