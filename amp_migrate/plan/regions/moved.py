"""What is only moved or given another shape: `x.detach().view(-1)` of `x`."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name
from amp_migrate.models import names
from amp_migrate.models.queries import keeps_numbers_or_floats, only_moves


def before_moves(node: cst.BaseExpression) -> cst.BaseExpression:
    """X of `X.detach().cpu()`, and of `X.data`."""
    return _inside(node, names(only_moves))


def before_casts(node: cst.BaseExpression) -> cst.BaseExpression:
    """X of `X.squeeze(1).float()`."""
    return _inside(node, names(keeps_numbers_or_floats))


def _inside(node: cst.BaseExpression, moves: frozenset[str]) -> cst.BaseExpression:
    while True:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and called_name(node) in moves:
            node = node.func.value
        elif isinstance(node, cst.Attribute) and node.attr.value in moves:
            node = node.value
        else:
            return node


def after_moves(facts: Facts, node: cst.CSTNode) -> cst.CSTNode:
    """`x.detach()[0]` of `x`: all that is only moved, and elements."""
    parent = facts.tree.parents.get(node)
    while isinstance(parent, (cst.Attribute, cst.Call, cst.Subscript)):
        is_moved = isinstance(parent, cst.Attribute) and parent.attr.value in names(only_moves)
        is_called = isinstance(parent, cst.Call) and parent.func is node
        is_part = isinstance(parent, cst.Subscript) and parent.value is node
        if not (is_moved or is_called or is_part):
            break
        node, parent = parent, facts.tree.parents.get(parent)
    return node
