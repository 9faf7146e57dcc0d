"""What statements have to do with each other, so that no mutant is the same program by construction.

Names are read and written; whatever else a statement does, it may do to everything: a call to any object.
"""

from __future__ import annotations

import ast
import re

from tests.structural.roles import is_cast
from tests.structural.syntax import JUMPS, Source, method_call

_ACTS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


def names(node: ast.AST, *contexts: type[ast.expr_context]) -> set[str]:
    """The names that are read or written in a node."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, contexts)}


def is_pure(node: ast.AST) -> bool:
    """True for an expression that does nothing but have a value."""
    return not any(isinstance(one, _ACTS) for one in ast.walk(node))


def _makes_scaler(source: Source, node: ast.stmt) -> bool:
    """True for `scaler = GradScaler(...)`, which does nothing to anybody."""
    return isinstance(node, ast.Assign) and source.makes(node.value, "GradScaler")


def are_dependent(source: Source, one: ast.stmt, other: ast.stmt) -> bool:
    """True where two statements may not change places."""
    for first, second in ((one, other), (other, one)):
        if is_cast(first):
            return False  # a matter of precision
        if _is_of_scaler(source, first):
            return _may_touch(source, first, second)
    makes_scaler = _makes_scaler(source, one) or _makes_scaler(source, other)
    return any(_depends(*pair, by_names=makes_scaler) for pair in ((one, other), (other, one)))


def _depends(one: ast.stmt, other: ast.stmt, *, by_names: bool) -> bool:
    """True where the second statement may read or write what the first one writes."""
    if names(one, ast.Store, ast.Del) & names(other, ast.Load, ast.Store, ast.Del):
        return True
    if by_names:
        written = {ast.unparse(part) for part in _members(one) if isinstance(part.ctx, ast.Store)}  # type: ignore[attr-defined]
        return bool(written & {ast.unparse(part) for part in _members(other)})
    return _acts(one) and (_acts(other) or _looks(other))


def _acts(node: ast.AST) -> bool:
    """True for what may change an object."""
    is_stored = (isinstance(getattr(part, "ctx", None), (ast.Store, ast.Del)) for part in _members(node))
    return not is_pure(node) or any(is_stored) or isinstance(node, ast.AugAssign)


def _looks(node: ast.AST) -> bool:
    """True for what reads something of an object."""
    return any(_members(node))


def _members(node: ast.AST) -> list[ast.AST]:
    return [part for part in ast.walk(node) if isinstance(part, (ast.Attribute, ast.Subscript))]


def _is_of_scaler(source: Source, node: ast.stmt) -> bool:
    """True for an update or an unscale_: it is known what they do, and to what."""
    call = method_call(node, "update", "unscale_")
    return call is not None and source.is_scaler(call.func.value)


def _may_touch(source: Source, event: ast.stmt, other: ast.stmt) -> bool:
    """True where a statement may have to do with a scaler, or with the gradients that it unscales: it names the scaler or
    the optimizer, speaks of gradients and parameters, or calls what is defined in the files.
    """
    call = event.value  # type: ignore[attr-defined]
    words = set(re.findall(r"\w+", ast.unparse(other)))
    mine = {call.func.value.attr if isinstance(call.func.value, ast.Attribute) else ast.unparse(call.func.value)}
    if call.func.attr == "unscale_":
        mine |= {"grad", "parameters", "backward", *re.findall(r"\w+", ast.unparse(call.args[0]))} - {"self"}
    return bool(words & mine) or any(
        _is_own(source, part.func) for part in ast.walk(other) if isinstance(part, ast.Call)
    )


def _is_own(source: Source, func: ast.expr) -> bool:
    """True for a function of the files, and a method of `self` or of what a name stands for."""
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
        name = func.attr
    elif isinstance(func, ast.Name):
        name = func.id
    else:
        return False
    return name in source.functions or re.search(rf"\bdef {name}\b", source.others) is not None


# -- what nothing reads ---------------------------------------------------------------------------------


def is_read(source: Source, node: ast.stmt, target: ast.expr) -> bool:
    """True where something may read what a statement stores."""
    if isinstance(target, ast.Attribute):
        is_own = isinstance(target.value, ast.Name) and target.value.id == "self"
        return not is_own or _is_attribute_read(source, node, target.attr)
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(is_read(source, node, one) for one in target.elts)
    return not isinstance(target, ast.Name) or _is_name_read(source, node, target.id)


def _is_attribute_read(source: Source, node: ast.stmt, name: str) -> bool:
    own = set(ast.walk(node))
    reads = (one for one in source.every(ast.Attribute) if one not in own and isinstance(one.ctx, ast.Load))
    in_text = re.search(rf"""\.{name}\b|["']{name}["']""", source.others)
    as_text = any(one.value == name for one in source.every(ast.Constant))
    return any(one.attr == name for one in reads) or bool(in_text) or as_text or "__dict__" in source.text


def _is_name_read(source: Source, node: ast.stmt, name: str) -> bool:
    function = source.function_of(node)
    is_global = isinstance(function, ast.Module) or any(
        name in one.names for one in ast.walk(function) if isinstance(one, (ast.Global, ast.Nonlocal))
    )
    if is_global and re.search(rf"\b{name}\b", source.others):
        return True
    own = set(ast.walk(node))
    reads = [
        one
        for one in ast.walk(source.tree if is_global else function)
        if isinstance(one, ast.Name) and one.id == name and not isinstance(one.ctx, ast.Store) and one not in own
    ]
    return bool(reads) and not _is_overwritten(source, node, name)


def _is_overwritten(source: Source, node: ast.stmt, name: str) -> bool:
    """True where a statement behind this one gives the name another value before it is read."""
    for one in source.following(node):
        if name in names(one, ast.Load, ast.Del) or isinstance(one, JUMPS):
            return False
        if isinstance(one, ast.Assign) and name in names(one, ast.Store):
            return True
        if name in names(one, ast.Store) or not isinstance(one, (ast.Assign, ast.Expr, ast.AugAssign)):
            return False
    return False
