"""Tensors that are certainly inputs, whose gradients no optimizer takes: `delta = torch.zeros_like(x).cuda()`."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.tree import called_name
from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.interp.steps import Steps

_COLLECTING = frozenset("append extend insert add_param_group Parameter".split())
_DISPLAYS = (cst.List, cst.Tuple, cst.Dict)
_OPERATIONS = (cst.Call, cst.BinaryOperation)


def is_input(facts: Facts, optimizers: ObjectSet, node: cst.BaseExpression) -> bool:
    """True for a name that holds a tensor made here, which nothing collects for an optimizer."""
    variable = facts.names.variable_at(node)
    if variable is None or not all(binding.kind == "assign" for binding in variable.bindings):
        return False
    steps = facts.analysis(Steps)
    is_made = any(makes_tensor(steps, binding.value) for binding in variable.bindings)
    return is_made and not any(_is_collected(facts, optimizers, load) for load in variable.loads)


def _is_collected(facts: Facts, optimizers: ObjectSet, load: cst.BaseExpression) -> bool:
    """True in the call that makes an optimizer, and in a list of things that may go there."""
    node: cst.CSTNode | None = load
    while node is not None and not isinstance(node, cst.BaseSmallStatement):
        parent = facts.tree.parents.get(node)
        if isinstance(node, cst.Call) and (
            facts.objects.objects(node) & optimizers or called_name(node) in _COLLECTING
        ):
            return True
        if isinstance(node, _DISPLAYS) and isinstance(parent, (cst.Assign, cst.AugAssign, cst.Return)):
            return True
        node = parent
    return False


def makes_tensor(steps: Steps, node: cst.BaseExpression | None) -> bool:
    """True for the result of an operation: `torch.zeros_like(x)`, `x.clone().detach()`, `x + 0.1 * noise`."""
    made = steps.of(Place(node)).made if isinstance(node, _OPERATIONS) else ()
    return bool(made) and all(_is_new(steps, one) for one in made)


def _is_new(steps: Steps, made: Made) -> bool:
    """True for a tensor of its own. What moves one may return the same: `torch.zeros_like(x).cuda()`."""
    row = made.operation
    if row is None or row.kind == "layer" or row.result == "weight":
        return False
    is_other = not row.view or row.drops_gradient or row.is_a("leaf")
    return is_other or makes_tensor(steps, made.operands[0].node)
