"""Functions that hand back the model that they are given, with the parameters it had: `model = synchronised(model)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_GROWING = frozenset("nn Parameter Module add_module register_module register_parameter setattr".split())
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def hands_back_its_first(definition: ast.AST) -> bool:
    """True for a function that ends in returning its first parameter, returns nothing else, and makes no layers."""
    if not isinstance(definition, ast.FunctionDef) or not definition.args.args or definition.decorator_list:
        return False
    name = definition.args.args[0].arg
    if name in ("self", "cls"):
        return False  # it is not given
    returned = [node.value for node in own_nodes(definition) if isinstance(node, ast.Return)]
    generates = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own_nodes(definition))
    rebound = any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
        for node in ast.walk(definition)
    )
    words = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(definition)}
    is_it = all(isinstance(value, ast.Name) and value.id == name for value in returned)
    stays = not rebound and not generates and words.isdisjoint(_GROWING)
    return isinstance(definition.body[-1], ast.Return) and is_it and stays


def own_nodes(definition: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of the functions and classes in it."""
    for node in ast.iter_child_nodes(definition):
        yield node
        if not isinstance(node, _SCOPES):
            yield from own_nodes(node)
