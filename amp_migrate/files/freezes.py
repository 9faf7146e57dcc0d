"""Whether code on disk stops the gradients of something that it is given."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection

from amp_migrate.files.definitions import definitions
from amp_migrate.files.saving import parameter_at
from amp_migrate.files.syntax import names_in


def freezes_given(resolved: str, position: int | str) -> bool:
    """True where a function is found, and stops gradients of the argument at a position, or under a name."""
    return any(_freezes_given(definition, position) for _, definition in definitions(resolved))


def _freezes_given(definition: ast.AST, position: int | str) -> bool:
    if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    name = parameter_at(definition, position)
    return name is not None and freezes(definition, {name})


def freezes(
    code: ast.AST, given: Collection[str], resolve: Callable[[ast.AST], str | None] = lambda node: None
) -> bool:
    """True for `p.requires_grad = False` and `p.requires_grad_(False)` of what is made of some names, and for a call of
    a function that does so, where `resolve` knows its name.
    """
    known = set(given)
    for node in ast.walk(code):  # what is around comes first
        if isinstance(node, ast.For) and names_in(node.iter) & known:
            known |= names_in(node.target)
        frozen = _frozen_by(node) if isinstance(node, ast.Assign | ast.Call) else set()
        if frozen & known or (isinstance(node, ast.Call) and _is_given_away(node, known, resolve)):
            return True
    return False


def _is_given_away(node: ast.Call, known: set[str], resolve: Callable[[ast.AST], str | None]) -> bool:
    """True for a call of a function that freezes what it is given."""
    places = [index for index, arg in enumerate(node.args) if names_in(arg) & known]
    name = resolve(node.func) if places else None
    return name is not None and any(freezes_given(name, index) for index in places)


def _frozen_by(node: ast.Assign | ast.Call) -> set[str]:
    """The names in what a statement or a call freezes itself."""
    if isinstance(node, ast.Call):
        is_it = isinstance(node.func, ast.Attribute) and node.func.attr == "requires_grad_" and bool(node.args)
        return names_in(node.func) if is_it and _is_false(node.args[0]) else set()
    targets = [one for one in node.targets if isinstance(one, ast.Attribute) and one.attr == "requires_grad"]
    return {name for one in targets for name in names_in(one.value)} if _is_false(node.value) else set()


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False
