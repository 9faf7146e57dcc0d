"""What functions and classes do with what they are given: helpers around a checkpoint save or load its state.

def save_checkpoint(path, model, optimizer):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
"""

from __future__ import annotations

import ast

from amp_migrate.files.definitions import definitions

_STATES = frozenset(("state_dict", "load_state_dict"))
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def saves_state(resolved: str, position: int | str) -> bool:
    """True where a function or class is found, and saves or loads the state of the argument at a position, or under a
    name.
    """
    return any(saves_given(definition, position) for _, definition in definitions(resolved))


def taken_of(resolved: str, position: int | str) -> frozenset[str]:
    """What a function or class, where found, takes of such an argument: `loss_scale` of `optimizer.loss_scale`."""
    return frozenset(one for _, found in definitions(resolved) for one in _taken_of_given(found, position))


def saves_given(definition: ast.AST, position: int | str) -> bool:
    """True where the state of the argument at a position, or under a name, is taken or set by a function; of a class,
    where its constructor keeps that argument, and a method does it; not one that only hands the call on.
    """
    handed_on = {call for one in getattr(definition, "body", ()) if (call := _handed_on(one)) is not None}
    called = (node.func for node in ast.walk(definition) if isinstance(node, ast.Call) and node not in handed_on)
    states = [one for one in called if isinstance(one, ast.Attribute) and one.attr in _STATES]
    return not _names_of_given(definition, position).isdisjoint(ast.unparse(one.value) for one in states)


def _handed_on(method: ast.AST) -> ast.Call | None:
    """`self.optim.state_dict()`, where a method of that name does nothing else: who calls it saves."""
    if not isinstance(method, _Function):
        return None
    body = method.body[1:] if ast.get_docstring(method) is not None else method.body
    call = body[0].value if len(body) == 1 and isinstance(body[0], (ast.Return, ast.Expr)) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == method.name:
        return call
    return None


def _taken_of_given(definition: ast.AST, position: int | str) -> set[str]:
    names = _names_of_given(definition, position)
    attributes = [node for node in ast.walk(definition) if isinstance(node, ast.Attribute)]
    return {node.attr for node in attributes if ast.unparse(node.value) in names}


def _names_of_given(definition: ast.AST, position: int | str) -> set[str]:
    """What an argument is called in a function, or where the constructor of a class keeps it."""
    if isinstance(definition, _Function):
        name = parameter_at(definition, position)
        return {name} if name is not None else set()
    if not isinstance(definition, ast.ClassDef):
        return set()
    made = next((one for one in definition.body if isinstance(one, _Function) and one.name == "__init__"), None)
    if made is None:
        return set()
    name = parameter_at(made, position + 1 if isinstance(position, int) else position)  # after `self`
    return {
        ast.unparse(target)
        for node in ast.walk(made)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == name
        for target in node.targets
    }


def parameter_at(function: _Function, position: int | str) -> str | None:
    """The name of the parameter that takes the argument at a position, or under a name."""
    if isinstance(position, str):
        return position
    given = [*function.args.posonlyargs, *function.args.args]
    return given[position].arg if position < len(given) else None
