"""What a sigmoid is computed from, whichever way it is written."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name

_SIGMOIDS = frozenset(("sigmoid", "softmax"))
_SHAPES = ("squeeze", "view", "float", "reshape", "flatten", "contiguous")


def inside_methods(node: cst.BaseExpression) -> cst.BaseExpression:
    """X in `X.squeeze(1).float()`."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _SHAPES:
        node = node.func.value
    return node


def sigmoid_argument(facts: Facts, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """X in `torch.sigmoid(x)`, `F.softmax(x, dim=1)`, `x.sigmoid()`, and `self.act(x)` where `self.act = nn.Sigmoid()`;
    subscripts on the way included.
    """
    while isinstance(node, cst.Subscript):
        node = node.value
    if not isinstance(node, cst.Call):
        return None
    first = node.args[0].value if node.args and node.args[0].keyword is None and not node.args[0].star else None
    if _is_sigmoid_module(facts, node.func):
        return first
    if called_name(node) not in _SIGMOIDS or not isinstance(node.func, cst.Attribute):
        return None
    is_function = _is_module(facts, node.func.value) or _is_self(facts, node.func.value)
    return first if is_function else node.func.value


def _is_sigmoid_module(facts: Facts, func: cst.BaseExpression) -> bool:
    """True for `nn.Sigmoid()` and for what holds one."""
    if isinstance(func, cst.Call):
        return called_name(func) == "Sigmoid"
    if not isinstance(func, (cst.Name, cst.Attribute)):
        return False
    origins = [one.origin for one in facts.objects.objects(func)]
    return bool(origins) and all(isinstance(one, cst.Call) and called_name(one) == "Sigmoid" for one in origins)


def _is_self(facts: Facts, node: cst.BaseExpression) -> bool:
    """True in `self.sigmoid(x)`: what is called is a part of the module, or a method of it."""
    function = facts.tree.function_of(node)
    return (
        function.is_method
        and bool(function.parameters)
        and isinstance(node, cst.Name)
        and node.value == function.parameters[0].name.value
    )


def _is_module(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for `torch`, `F` and `torch.nn.functional`: a call of their attribute is no method of a tensor."""
    if facts.names.dotted(node) is not None:
        return True
    return isinstance(node, cst.Attribute) or (isinstance(node, cst.Name) and node.value in ("torch", "F", "nn"))
