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

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Function, walk
from amp_migrate.facts.values import literal_value
from amp_migrate.files.parse import Unparsable, parse


def gives_norm(facts: Facts, call: cst.Call) -> bool:
    """True for a call of a function that computes the norm of gradients, here or in a file that is found on disk."""
    function = facts.objects.called_function(call)
    return is_gradient_norm(facts, function) if function is not None else _is_imported_norm(facts, call)


def is_gradient_norm(facts: Facts, function: Function) -> bool:
    """True where every use of a gradient is inside `.norm(p)` or a comparison with None, the norms are raised
    to a power p and summed, and what is returned is raised to 1 / p.
    """
    gradients = powers = 0
    exponents: set[str] = set()
    roots: set[str] = set()
    for statement in function.body.statements:
        for inner in statement.descendants():
            if isinstance(inner.node, (cst.Assign, cst.AugAssign)) and _writes_gradient(inner.node):
                return False
            for part in facts.tree.expressions(inner):
                if isinstance(part, cst.Attribute) and part.attr.value == "grad":
                    if not _is_in_norm(facts, part):
                        return False
                    gradients += 1
                elif isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.Power):
                    powers += 1
                    (roots if _is_root(part.right) else exponents).add(_exponent(part.right))
    return gradients > 0 and powers == 2 and len(exponents) == 1 and exponents == roots


def _is_imported_norm(facts: Facts, call: cst.Call) -> bool:
    for dotted in facts.names.imported_as(call.func):
        source = facts.elsewhere.source_of(dotted)
        try:
            other = Facts.of_module(parse(source)) if source is not None else None
        except Unparsable:
            continue
        name = dotted.rpartition(".")[2]
        functions = other.tree.functions if other is not None else []
        found = [one for one in functions if one.name == name and one.parent is not None and one.parent.is_module]
        if other is not None and found:
            return is_gradient_norm(other, found[0])
    return False


def _writes_gradient(node: cst.Assign | cst.AugAssign) -> bool:
    targets = [target.target for target in node.targets] if isinstance(node, cst.Assign) else [node.target]
    return any(isinstance(part, cst.Attribute) and part.attr.value == "grad" for t in targets for part in walk(t))


def _is_in_norm(facts: Facts, gradient: cst.Attribute) -> bool:
    """`p.grad.norm(2)`, `p.grad.data.norm(2)`, `torch.norm(p.grad, 2)`, or a test such as `p.grad is not None`."""
    current: cst.CSTNode = gradient
    parent = facts.tree.parents.get(current)
    while isinstance(parent, cst.Attribute) and parent.value is current:
        if parent.attr.value == "norm":
            return True
        if parent.attr.value not in ("data", "detach"):
            return False
        current, parent = parent, facts.tree.parents.get(parent)
        if isinstance(parent, cst.Call) and parent.func is current:
            current, parent = parent, facts.tree.parents.get(parent)
    if isinstance(parent, cst.Arg):
        call = facts.tree.parents.get(parent)
        return isinstance(call, cst.Call) and source_key(call.func).split(".")[-1] == "norm"
    return isinstance(parent, (cst.Comparison, cst.If, cst.BooleanOperation, cst.UnaryOperation))


def _is_root(node: cst.BaseExpression) -> bool:
    """`1. / norm_type`, or a number below 1 such as 0.5."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
        return literal_value(node.left) == 1
    value = literal_value(node)
    return isinstance(value, (int, float)) and 0 < value < 1


def _exponent(node: cst.BaseExpression) -> str:
    """What p is: the text of `norm_type`, or the number, in `x ** p` as in `x ** (1 / p)`."""
    if isinstance(node, cst.BinaryOperation) and _is_root(node):
        node = node.right
    value = literal_value(node)
    if isinstance(value, (int, float)) and value:
        return str(float(value if value >= 1 else 1 / value))
    return source_key(node)
