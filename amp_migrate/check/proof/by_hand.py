"""Half precision that a script has made by hand: loss scales, and float32 copies of weights. They come to nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.check.proof.nodes import walk
from amp_migrate.check.proof.program import Scope
from amp_migrate.check.proof.worlds import Keys
from amp_migrate.models import names
from amp_migrate.models.dtype_names import dtype_named
from amp_migrate.models.queries import carries, copies, creates, describes
from amp_migrate.models.traits import named

# What a loop over copies speaks of beside them, and beside what makes, moves and asks for tensors.
_COPYING = frozenset("grad data dtype copy_ resize_ zip no_grad torch nn Parameter parameters".split())


def loss_scales(keys: Keys) -> tuple[set[str], set[str]]:
    """The keys of what losses are multiplied by before their backward, and gradients are divided by after it; and the
    variables and attributes in them.
    """
    multiplied: set[str] = set()
    divided: set[str] = set()
    for file in (one for one in keys.flow.files if b".grad" in one.source):
        for scope in file.functions.values():
            for node in walk(scope.node):
                for factor in _divisors(node):
                    divided.add(scale_key(keys, file.scope_of.get(_first_name(factor), scope), factor))
    for file in keys.flow.files if divided else ():
        for scope, call in file.calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
                value = call.func.value
                for one in [value, *_assigned(scope, value)]:
                    if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult):
                        multiplied |= {scale_key(keys, scope, part) for part in (one.left, one.right)}
    found = multiplied & divided
    return found, {part for one in found for part in _variables(ast.parse(one, mode="eval"))}


def _variables(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Name, ast.Attribute)):
        yield ast.unparse(node)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _variables(child)


def _assigned(scope: Scope, node: ast.expr) -> list[ast.AST]:
    home = scope.binding(node.id) if isinstance(node, ast.Name) else None
    return [one for one in home.bound[node.id] if isinstance(one, ast.AST)] if home is not None else []  # type: ignore[attr-defined]


def scale_key(keys: Keys, scope: Scope, node: ast.expr) -> str:
    """The key of a scale; a number is the same one as an integer and as a float."""
    meant = keys.meant(scope, node)
    if meant is not None and isinstance(meant[1], (ast.Constant, ast.BinOp, ast.Name, ast.Attribute)):
        return scale_key(keys, *meant)
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return repr(float(node.value))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float" and node.args:
        return scale_key(keys, scope, node.args[0])
    return keys.key(scope, node)


def _first_name(node: ast.AST) -> ast.AST:
    return next((part for part in ast.walk(node) if isinstance(part, ast.Name)), node)


def _divisors(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement divides a gradient by."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        if node.func.attr in ("div_", "mul_") and is_gradient(node.func.value):
            yield from _factor(node.args[0], node.func.attr == "div_")
    elif isinstance(node, ast.AugAssign) and is_gradient(node.target):
        if isinstance(node.op, (ast.Div, ast.Mult)):
            yield from _factor(node.value, isinstance(node.op, ast.Div))
    elif isinstance(node, ast.Assign) and is_gradient(node.targets[0]) and isinstance(node.value, ast.BinOp):
        if isinstance(node.value.op, (ast.Div, ast.Mult)):
            yield from _factor(node.value.right, isinstance(node.value.op, ast.Div))


def _factor(node: ast.expr, divides: bool) -> Iterator[ast.expr]:
    if divides:
        yield node
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):  # times one over the scale
        yield node.right


def is_gradient(node: ast.AST) -> bool:
    """True for `p.grad` and `p.grad.data`, and for what is made of them without a change."""
    while (isinstance(node, ast.Attribute) and node.attr == "data") or _is_copy_call(node):
        node = node.func.value if isinstance(node, ast.Call) else node.value  # type: ignore[attr-defined]
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def _is_copy_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names(copies)


def unscales(keys: Keys, scope: Scope, node: ast.stmt, scales: set[str]) -> bool:
    """True for a statement that only divides a gradient by one of the loss scales."""
    inner = node.value if isinstance(node, ast.Expr) else node
    return any(scale_key(keys, scope, one) in scales for one in _divisors(inner))


def moves_copies(node: ast.For) -> bool:
    """True for a loop over parameters and their copies that only moves weights or gradients between them."""
    loop = _paired(node)
    if not loop:
        return False
    for one in node.body:
        for part in walk(one):
            name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else None
            if name is not None and name not in loop and not _is_of_copying(name):
                return False
            if isinstance(part, (ast.Return, ast.Raise, ast.Yield, ast.Await)):
                return False
    return any("grad" in ast.unparse(one) or "copy_" in ast.unparse(one) for one in node.body)


def _is_of_copying(name: str) -> bool:
    known = name in _COPYING or name in named("clearing") or dtype_named(f"torch.{name}") is not None
    return known or any(name in names(one) for one in (carries, creates, describes))


def _paired(node: ast.For) -> set[str]:
    """The names in a loop that stand for elements of several lists at one place: those of a `zip`, or the lists that it
    takes by an index, and that.
    """
    target, called = node.target, node.iter
    if not isinstance(called, ast.Call):
        return set()
    if isinstance(target, ast.Tuple) and ast.unparse(called.func) == "zip":
        return {one.id for one in target.elts if isinstance(one, ast.Name)}
    if not isinstance(target, ast.Name) or not ast.unparse(called).startswith("range(len("):
        return set()
    taken = [part for one in node.body for part in walk(one) if isinstance(part, ast.Subscript)]
    if not all(ast.unparse(one.slice) == target.id for one in taken):
        return set()
    return {target.id, *(one.value.id for one in taken if isinstance(one.value, ast.Name))} if taken else set()


def copied_from(node: ast.expr) -> ast.expr | None:
    """X of `[p.detach().clone().float() for p in X]`: the float32 copies of some parameters."""
    if not isinstance(node, ast.ListComp) or len(node.generators) != 1 or node.generators[0].ifs:
        return None
    inner: ast.AST = node.elt
    seen: set[str] = set()
    while True:
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in names(copies):
            seen.add(inner.func.attr)
            inner = inner.func.value
        elif isinstance(inner, ast.Attribute) and inner.attr == "data":
            inner = inner.value
        elif isinstance(inner, ast.Call) and ast.unparse(inner.func).endswith("Parameter") and inner.args:
            inner = inner.args[0]
        else:
            break
    target = node.generators[0].target
    same_name = isinstance(inner, ast.Name) and isinstance(target, ast.Name) and inner.id == target.id
    return node.generators[0].iter if same_name and "float" in seen else None
