"""Which functions and classes save or load the state of what they are given: helpers around a checkpoint.

def save_checkpoint(path, model, optimizer):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
"""

from __future__ import annotations

import ast

_STATES = frozenset(("state_dict", "load_state_dict"))
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def saves_given(definition: ast.AST, position: int | str) -> bool:
    """True where the state of the argument at a position, or under a name, is taken or set by a function; of a class,
    where its constructor keeps that argument, and a method does it.
    """
    if isinstance(definition, _Function):
        return _parameter(definition, position) in _with_states(definition)
    if not isinstance(definition, ast.ClassDef):
        return False
    made = next((one for one in definition.body if isinstance(one, _Function) and one.name == "__init__"), None)
    if made is None:
        return False
    name = _parameter(made, position + 1 if isinstance(position, int) else position)  # after `self`
    kept = {
        ast.unparse(target)
        for node in ast.walk(made)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == name
        for target in node.targets
    }
    return not kept.isdisjoint(_with_states(definition))


def _parameter(function: _Function, position: int | str) -> str | None:
    if isinstance(position, str):
        return position
    given = [*function.args.posonlyargs, *function.args.args]
    return given[position].arg if position < len(given) else None


def _with_states(definition: ast.AST) -> set[str]:
    """What `state_dict` and `load_state_dict` are called on, as it is written."""
    called = (node.func for node in ast.walk(definition) if isinstance(node, ast.Call))
    return {ast.unparse(one.value) for one in called if isinstance(one, ast.Attribute) and one.attr in _STATES}
