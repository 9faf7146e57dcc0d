"""What the statements of a training are for."""

from __future__ import annotations

import ast
import re

from tests.structural.syntax import FUNCTIONS, Source, method_call

_METHODS = {
    "zero_grad": "zero_grad",
    "load_state_dict": "load_state_dict",
    "eval": "mode",
    "train": "mode",
    "backward": "backward",
}
_PRECISION = ("autocast", "custom_fwd", "custom_bwd", "nullcontext")


def role(source: Source, node: ast.Expr) -> str:
    """What a call that is a statement is for; empty for everything else."""
    call = node.value
    if not isinstance(call, ast.Call):
        return ""
    func = call.func
    last = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    if "clip_grad" in last:
        return "clip"
    if "seed" in last:
        return "seed"
    if isinstance(func, ast.Attribute):
        if source.is_scaler(func.value) and last in ("step", "update", "unscale_"):
            return last
        if last == "step":
            return "scheduler step" if _is_scheduler(source, func.value) else "bare step"
        if last in _METHODS:
            return _METHODS[last]
    return "callback" if _is_handed_in(source, node, func) else ""


def is_cast(node: ast.AST) -> bool:
    """True for `model.half()` and `x = x.float()`."""
    call = method_call(node.value if isinstance(node, ast.Assign) else node, "half", "float", "bfloat16")
    if call is None or call.args or not isinstance(node, (ast.Expr, ast.Assign)):
        return False
    return isinstance(node, ast.Expr) or ast.unparse(node.targets[0]) == ast.unparse(call.func.value)  # type: ignore[attr-defined]


def sets_scale(source: Source, node: ast.AST) -> bool:
    """True for what chooses a loss scale, which is precision: `if scaler.get_scale() < 1.0: scaler.update(1.0)`, and the
    `init_scale` of a scaler.
    """
    for one in (node, *source.around(node)):
        if isinstance(one, ast.keyword) and one.arg == "init_scale":
            return True
        inner = [*one.body, *one.orelse] if isinstance(one, ast.If) else [one]
        calls = [method_call(part, "update") if isinstance(part, ast.Expr) else None for part in inner]
        if all(call is not None and call.args and source.is_scaler(call.func.value) for call in calls):  # type: ignore[attr-defined]
            return isinstance(one, ast.If) or isinstance(source.parents[one], ast.If)
    return False


def _is_scheduler(source: Source, node: ast.expr) -> bool:
    """True for what is called so, or made by what is."""
    text = ast.unparse(node)
    made = [ast.unparse(one.value) for one in source.every(ast.Assign) if ast.unparse(one.targets[0]) == text]
    return any(re.search(r"sched|LR\(|lr_", one, re.I) for one in [text, *made])


def _is_handed_in(source: Source, node: ast.Expr, func: ast.expr) -> bool:
    """True for the call of a parameter, and of an attribute of self that is no method of the file's."""
    if isinstance(func, ast.Attribute):
        return ast.unparse(func.value) == "self" and func.attr not in source.functions
    if not isinstance(func, ast.Name):
        return False
    function = source.function_of(node)
    own = function.args.args if isinstance(function, FUNCTIONS) else []
    loops = (one for one in source.around(node) if isinstance(one, ast.For))
    return func.id in {one.arg for one in own} | {
        name for one in loops for name in re.findall(r"\w+", ast.unparse(one.target))
    }


def is_precision(source: Source, node: ast.expr) -> bool:
    """True for a decorator or context about precision: what is lost with it is no statement of the program."""
    func = node.func if isinstance(node, ast.Call) else node
    is_named = isinstance(func, (ast.Name, ast.Attribute))
    last = source.dotted(func).rpartition(".")[2] if is_named else ""
    holds = any(
        isinstance(one, ast.Assign)
        and ast.unparse(one.targets[0]) == ast.unparse(node)
        and is_precision(source, one.value)
        for one in source.every(ast.Assign)
    )
    return last in _PRECISION or holds
