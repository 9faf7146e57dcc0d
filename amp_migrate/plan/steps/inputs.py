"""Tensors that are certainly inputs, whose gradients no optimizer takes: `delta = torch.zeros_like(x).cuda()`."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object
from amp_migrate.facts.tree import called_name
from amp_migrate.models import names
from amp_migrate.models.queries import creates
from amp_migrate.models.traits import named
from amp_migrate.plan.roles import Roles

_COLLECTING = frozenset("append extend insert add_param_group Parameter".split())
_DISPLAYS = (cst.List, cst.Tuple, cst.Dict)


def is_input(facts: Facts, roles: Roles, node: cst.BaseExpression) -> bool:
    """True for a name that holds a tensor made here, which nothing collects for an optimizer."""
    variable = facts.names.variable_at(node) if isinstance(node, cst.Name) else None
    if variable is None or not all(binding.kind == "assign" for binding in variable.bindings):
        return False
    is_made = any(_makes_tensor(binding.value) for binding in variable.bindings)
    return is_made and not any(_is_collected(facts, roles, load) for load in variable.loads)


def _is_collected(facts: Facts, roles: Roles, load: cst.BaseExpression) -> bool:
    """True in the call that makes an optimizer, and in a list of things that may go there."""
    node: cst.CSTNode | None = load
    while node is not None and not isinstance(node, cst.BaseSmallStatement):
        parent = facts.tree.parents.get(node)
        if isinstance(node, cst.Call) and (
            Object("call", node) in roles.optimizers or called_name(node) in _COLLECTING
        ):
            return True
        if isinstance(node, _DISPLAYS) and isinstance(parent, (cst.Assign, cst.AugAssign, cst.Return)):
            return True
        node = parent
    return False


def _makes_tensor(node: cst.BaseExpression | None) -> bool:
    """True for the usual ways to make an input tensor: `torch.zeros_like(x)`, `x.clone().detach()`, and for what is
    moved then: `torch.zeros_like(x).cuda()`.
    """
    if isinstance(node, cst.Call) and called_name(node) in ("cuda", "to") and isinstance(node.func, cst.Attribute):
        return _makes_tensor(node.func.value)
    return isinstance(node, cst.Call) and called_name(node) in names(creates) | named("copy") | named("bound")
