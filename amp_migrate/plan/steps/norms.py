"""Recognising functions that compute the norm of gradients (rule D2).

A norm is homogeneous: of gradients times S it is S times the norm, so its value can be divided by the scale
afterwards. The shape that people write:

    def get_grad_norm(parameters, norm_type=2):
        total_norm = 0
        for p in parameters:
            param_norm = p.grad.data.norm(norm_type)
            total_norm += param_norm.item() ** norm_type
        return total_norm ** (1. / norm_type)
"""

from __future__ import annotations

import ast

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.files.as_ast import as_ast
from amp_migrate.files.bindings import called_name
from amp_migrate.files.definitions import definitions


def gives_norm(facts: Facts, call: cst.Call) -> bool:
    """True for a call of a function that computes the norm of gradients, here or in a file that is found on disk."""
    function = facts.objects.called_function(call)
    if function is not None:
        return is_gradient_norm(as_ast(function.node))
    paths = facts.names.imported_as(call.func)
    return any(is_gradient_norm(definition) for path in paths for _, definition in definitions(path))


def is_gradient_norm(code: ast.AST) -> bool:
    """True where every use of a gradient is inside `.norm(p)` or a comparison with None, the norms are raised
    to a power p and summed, and what is returned is raised to 1 / p.
    """
    nodes = list(ast.walk(code))
    parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
    gradients = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr == "grad"]
    powers = [node.right for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)]
    exponents = {_exponent(one) for one in powers if not _is_root(one)}
    roots = {_exponent(one) for one in powers if _is_root(one)}
    is_norm = len(powers) == 2 and len(exponents) == 1 and exponents == roots
    return is_norm and bool(gradients) and all(_is_in_norm(parents, one) for one in gradients)


def _is_in_norm(parents: dict[ast.AST, ast.AST], gradient: ast.Attribute) -> bool:
    """`p.grad.norm(2)`, `p.grad.data.norm(2)`, `torch.norm(p.grad, 2)`, or a test such as `p.grad is not None`."""
    current: ast.AST = gradient
    while isinstance(parent := parents[current], ast.Attribute):
        if parent.attr == "norm":
            return True
        if parent.attr not in ("data", "detach"):
            return False
        above = parents[parent]
        current = above if isinstance(above, ast.Call) and above.func is parent else parent
    if isinstance(parent, (ast.Call, ast.keyword)):
        call = parents[parent] if isinstance(parent, ast.keyword) else parent
        return isinstance(call, ast.Call) and called_name(call) == "norm"
    return isinstance(parent, (ast.Compare, ast.If, ast.BoolOp, ast.UnaryOp))


def _is_root(node: ast.expr) -> bool:
    """`1. / norm_type`, or a number below 1 such as 0.5."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _number(node.left) == 1
    value = _number(node)
    return value is not None and 0 < value < 1


def _exponent(node: ast.expr) -> str:
    """What p is: the text of `norm_type`, or the number, in `x ** p` as in `x ** (1 / p)`."""
    if isinstance(node, ast.BinOp) and _is_root(node):
        node = node.right
    value = _number(node)
    return str(float(value if value >= 1 else 1 / value)) if value else ast.unparse(node)


def _number(node: ast.expr) -> float | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) else None
