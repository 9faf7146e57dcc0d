"""The state of a scaler in the checkpoints of an output: those of the original have none (rule F)."""

from __future__ import annotations

import ast


def loaded(node: ast.stmt) -> ast.expr | None:
    """What a statement loads as the state of a scaler; None for other statements."""
    call = node.value if isinstance(node, ast.Expr) else None
    is_load = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "<load amp state>"
    return call.args[0] if isinstance(call, ast.Call) and is_load and call.args else None


def asks_for(test: ast.expr, state: ast.expr) -> bool:
    """True for a test that holds only where there is such a state: `"scaler" in checkpoint`, `state is not None`."""
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and any(asks_for(one, state) for one in test.values)
    holder, key = _item(state)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = test.left, test.comparators[0]
        if isinstance(test.ops[0], ast.In):
            return bool(key) and [ast.unparse(right), ast.unparse(left)] == [holder, key]
        is_none = isinstance(right, ast.Constant) and right.value is None
        return isinstance(test.ops[0], (ast.IsNot, ast.NotEq)) and is_none and asks_for(left, state)
    return ast.unparse(test) == ast.unparse(state) or (bool(key) and _item(test) == (holder, key))


def _item(node: ast.expr) -> tuple[str, str]:
    """The holder and the key of `state["scaler"]` and `state.get("scaler")`; empty for all else."""
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value), ast.unparse(node.slice)
    func = node.func if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and isinstance(func, ast.Attribute) and func.attr == "get" and node.args:
        return ast.unparse(func.value), ast.unparse(node.args[0])
    return "", ""
