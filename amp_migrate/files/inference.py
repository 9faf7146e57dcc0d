"""Which functions run a model that they are given: a vocoder that makes sound of what has been predicted.

def listen(mel, vocoder):
    with torch.no_grad():
        wave = vocoder(mel)
"""

from __future__ import annotations

import ast

from amp_migrate.files.bindings import called_name

_WITHOUT_GRADIENTS = frozenset(("no_grad", "inference_mode"))


def runs_what_it_is_given(definition: ast.AST) -> bool:
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
