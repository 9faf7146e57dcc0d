"""Plain backwards whose gradients are cleared before anything takes them: an evaluation that frees its graph by one.

    loss.backward()
    model.zero_grad()

They meet neither a scaled backward nor a step. What else the clear takes away is taken natively as well.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.plan.roles import Roles


def is_cleared(facts: Facts, roles: Roles, backward: Statement) -> bool:
    """True where a later statement of the block clears all gradients, and none in between steps or jumps."""
    for later in backward.next_siblings():
        node = later.node
        call = node.value if isinstance(node, cst.Expr) else None
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and called_name(call) == "zero_grad":
            if _clears_all(roles, call.func.value):
                return True
        elif not isinstance(node, (cst.Expr, cst.Assign, cst.AugAssign)) or _steps(facts, later):
            return False
    return False


def _clears_all(roles: Roles, node: cst.BaseExpression) -> bool:
    """True for the only optimizer, and for the model whose parameters it has."""
    if len(roles.optimizers) != 1:
        return False
    return bool(roles.optimizers_at(node)) or roles.is_whole_model(node)


def _steps(facts: Facts, statement: Statement) -> bool:
    return any(called_name(call) == "step" for call in facts.tree.calls(statement))
