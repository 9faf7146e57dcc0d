"""Code that reads gradients, and does the same whatever they are scaled by: adversarial training (FGM, PGD).

    norm = torch.norm(param.grad)
    if norm != 0 and not torch.isnan(norm):
        param.data.add_(self.epsilon * param.grad / norm)      a direction
    self.backup[name] = param.grad.clone()                     kept
    param.grad = self.backup[name]                             and put back

A gradient may be divided by its own norm, lose all but its sign, be asked whether it is there, or be kept and put back
as it is. An overflow makes the norm infinite, scaled or not, and the scaler skips that step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from amp_migrate import models
from amp_migrate.files.bindings import called_name
from amp_migrate.files.contents import definitions_in
from amp_migrate.files.definitions import definitions
from amp_migrate.models.queries import keeps_numbers
from amp_migrate.models.traits import named

_SMALLEST = 1e-6  # added to a norm, this only keeps it from zero
_TRAINS = frozenset("backward step update".split())


def reads_directions(resolved: str) -> bool:
    """True for a class or function that is found on disk, and is free of the scale."""
    found = [one for file, one in definitions(resolved) if definitions_in(file).get(one.name) is one]  # no method
    return len(found) == 1 and not getattr(found[0], "bases", ()) and is_scale_free(found[0])


@lru_cache(maxsize=1024)  # a unit is tried several times, and many of its calls are of one name
def is_scale_free(code: ast.AST) -> bool:
    """True for a class or function that reads gradients, and nothing of their size."""
    functions = [node for node in ast.walk(code) if isinstance(node, ast.FunctionDef)]
    called = [called_name(node) for node in ast.walk(code) if isinstance(node, ast.Call)]
    trains = any(name in _TRAINS or "grad_" in name for name in called)  # `clip_grad_norm_`
    kept = {holder for function in functions for holder in _Reader(function, frozenset()).kept}
    if trains or _hands_on(code, kept):
        return False
    return all(_Reader(one, frozenset(kept)).is_free() for one in functions)


def _hands_on(code: ast.AST, kept: set[str]) -> bool:
    """True where what keeps gradients goes to somebody else as a whole: `return grads`."""
    parents = {child: node for node in ast.walk(code) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(code):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            parent = parents.get(node)
            own = isinstance(parent, (ast.Subscript, ast.Compare))
            if ast.unparse(node) in kept and not own and getattr(parent, "attr", None) not in ("clear", "keys"):
                return True
    return False


class _Reader:
    """The gradients that one function reads. `holders` keep gradients for the other functions of its class."""

    def __init__(self, function: ast.FunctionDef, holders: frozenset[str]) -> None:
        self.function = function
        self.holders = holders
        self.parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
        self.gradients = {name for name, value in self._assigned() if self._is_gradient(value, frozenset())}
        self.norms = {name for name, value in self._assigned() if self._is_norm(value)}

    @property
    def kept(self) -> Iterator[str]:
        """`self.backup` of `self.backup[name] = param.grad.clone()`."""
        for node in ast.walk(self.function):
            if isinstance(node, ast.Assign) and self._is_gradient(node.value, self.gradients):
                yield from (ast.unparse(one.value) for one in node.targets if isinstance(one, ast.Subscript))

    def is_free(self) -> bool:
        """True where every gradient and every norm is used in one of the ways that its scale does not change."""
        mixed = [
            name
            for name, value in self._assigned()
            if (name in self.gradients and not self._is_gradient(value, self.gradients))
            or (name in self.norms and not self._is_norm(value))
        ]
        return not mixed and all(self._is_used_well(node) for node in ast.walk(self.function))

    def _assigned(self) -> Iterator[tuple[str, ast.expr]]:
        for node in ast.walk(self.function):
            if isinstance(node, ast.Assign):
                yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))

    # -- what an expression is ---------------------------------------------------------------------------

    def _is_gradient(self, node: ast.expr, names: frozenset[str] | set[str]) -> bool:
        """`param.grad`, `param.grad.data.clone()`, or a name for that."""
        while True:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_same(node.func):
                node = node.func.value
            elif isinstance(node, ast.Attribute) and node.attr == "data":
                node = node.value
            else:
                break
        if isinstance(node, ast.Name):
            return node.id in names
        if isinstance(node, ast.Subscript):
            return ast.unparse(node.value) in self.holders
        return isinstance(node, ast.Attribute) and node.attr == "grad"

    def _is_norm(self, node: ast.expr) -> bool:
        """`torch.norm(param.grad)` and `param.grad.norm()`."""
        if not isinstance(node, ast.Call) or called_name(node) != "norm" or not isinstance(node.func, ast.Attribute):
            return False
        return any(self._is_gradient(one, self.gradients) for one in (node.func.value, *node.args[:1]))

    def _is_size(self, node: ast.AST) -> bool:
        """A norm, or a name for one; a small number may be added."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            small = isinstance(node.right, ast.Constant) and isinstance(node.right.value, float)
            return small and node.right.value <= _SMALLEST and self._is_size(node.left)  # type: ignore[attr-defined]
        if isinstance(node, ast.Name):
            return node.id in self.norms
        return isinstance(node, ast.expr) and self._is_norm(node)

    # -- how it is used ----------------------------------------------------------------------------------

    def _is_used_well(self, node: ast.AST) -> bool:
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            return self._puts_back(node)
        if not isinstance(node, ast.expr) or isinstance(getattr(node, "ctx", None), ast.Store):
            return True
        if self._is_size(node):
            return self._is_size_used_well(node)
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and self._is_gradient(node, self.gradients):
            return self._is_gradient_used_well(node)
        return True

    def _puts_back(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> bool:
        """False for an assignment that gives a parameter a gradient that none had."""
        targets: list[ast.expr] = [*node.targets] if isinstance(node, ast.Assign) else [node.target]
        if not any(self._is_gradient(target, self.gradients - self._names(targets)) for target in targets):
            return not isinstance(node, ast.AugAssign) or not self._names(targets) & (self.gradients | self.norms)
        is_none = isinstance(node.value, ast.Constant) and node.value.value is None
        plain = isinstance(node, ast.Assign) and self._is_gradient(node.value, self.gradients)
        return isinstance(node, ast.Assign) and (is_none or plain)

    def _names(self, targets: list[ast.expr]) -> set[str]:
        return {target.id for target in targets if isinstance(target, ast.Name)}

    def _is_gradient_used_well(self, node: ast.expr) -> bool:
        top, parent = self._whole(node)
        if isinstance(parent, ast.Compare):
            return all(isinstance(one, (ast.Is, ast.IsNot)) for one in parent.ops)
        if isinstance(parent, ast.Call) and called_name(parent) == "norm":
            return self._is_norm(parent)
        if isinstance(parent, (ast.Call, ast.Attribute)):
            call = parent if isinstance(parent, ast.Call) else self.parents.get(parent)
            return isinstance(call, ast.Call) and called_name(call) in {"sign", "norm"}
        if isinstance(parent, ast.Assign) and parent.value is top:
            return all(self._keeps(target) for target in parent.targets)
        while isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
            if self._holds_gradient(parent.left) and self._holds_gradient(parent.right):
                return False
            top, parent = parent, self.parents.get(parent)
        divides = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and parent.left is top
        return divides and self._is_size(parent.right)  # type: ignore[union-attr]

    def _whole(self, node: ast.expr) -> tuple[ast.AST, ast.AST | None]:
        """`param.grad.data.clone()` around `param.grad`, and what it stands in."""
        top: ast.AST = node
        parent = self.parents.get(top)
        while isinstance(parent, ast.Attribute) and (parent.attr == "data" or _is_same(parent)):
            top = parent if parent.attr == "data" else self.parents[parent]
            parent = self.parents.get(top)
        return top, parent

    def _keeps(self, target: ast.expr) -> bool:
        """A name, an element of what keeps gradients, or the gradient of a parameter itself."""
        if isinstance(target, ast.Subscript):
            return ast.unparse(target.value) in self.holders
        return isinstance(target, ast.Name) or (isinstance(target, ast.Attribute) and target.attr == "grad")

    def _is_size_used_well(self, node: ast.expr) -> bool:
        parent = self.parents.get(node)
        if isinstance(parent, ast.Compare):
            others = [one for one in (parent.left, *parent.comparators) if one is not node]
            return all(isinstance(one, ast.Constant) and one.value in (0, None) for one in others)
        if isinstance(parent, ast.Call):
            return called_name(parent) in named("overflow test")
        if isinstance(parent, ast.Assign):
            return all(isinstance(target, ast.Name) for target in parent.targets)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add):
            return self._is_size(parent)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and parent.right is node:
            left = parent.left
            while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult):
                left = left.right if self._holds_gradient(left.right) else left.left
            return self._is_gradient(left, self.gradients)
        return isinstance(parent, (ast.If, ast.BoolOp, ast.UnaryOp))

    def _holds_gradient(self, node: ast.expr) -> bool:
        return any(isinstance(one, ast.expr) and self._is_gradient(one, self.gradients) for one in ast.walk(node))


def _is_same(method: ast.Attribute) -> bool:
    """True for what gives the tensor itself, a copy of it, or another shape of it."""
    return method.attr in models.names(keeps_numbers)
