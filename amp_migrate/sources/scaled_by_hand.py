"""Loss scales by hand: what gradients are divided by, since the loss was multiplied with it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, called_name, targets
from amp_migrate.facts.values import literal_value
from amp_migrate.models import names
from amp_migrate.models.queries import multiplies, scales


def divisors(facts: Facts, statement: Statement) -> Iterator[cst.BaseExpression]:
    """The numbers that a statement divides gradients by."""
    node, divided = statement.node, list(map(divisor_of, facts.tree.expressions(statement)))
    if isinstance(node, cst.AugAssign) and _is_grad(node.target):
        is_product = isinstance(node.operator, cst.MultiplyAssign)
        divided += [_inverse(node.value)] if is_product else []
        divided += [node.value] if isinstance(node.operator, cst.DivideAssign) else []
    return (one for one in divided if one is not None)


def divided_in_place(facts: Facts, statement: Statement) -> list[cst.BaseExpression]:
    """The same of a statement that does nothing else: `p.grad = p.grad / S`, and no `size = p.grad.norm() / n`."""
    node = statement.node
    changed = targets(node)
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        changed = [node.value.func]
    return list(divisors(facts, statement)) if changed and all(map(_is_grad, changed)) else []


def divisor_of(node: cst.CSTNode) -> cst.BaseExpression | None:
    """S in `g / S`, `g * (1 / S)`, `g.div_(S)`, `g.mul_(1 / S)`, for gradients `g`."""
    if isinstance(node, cst.BinaryOperation) and _is_grad(node.left):
        if isinstance(node.operator, cst.Divide):
            return node.right
        return _inverse(node.right) if isinstance(node.operator, cst.Multiply) else None
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or len(node.args) != 1:
        return None
    if called_name(node) not in names(scales) or not _is_grad(node.func.value):
        return None
    value = node.args[0].value
    return _inverse(value) if called_name(node) in names(multiplies) else value


def without_float(loss: cst.BaseExpression) -> cst.BaseExpression:
    """`loss` of `loss.float()`: under autocast a loss is in float32, and scale() makes it so."""
    if isinstance(loss, cst.Call) and called_name(loss) == "float" and isinstance(loss.func, cst.Attribute):
        return loss.func.value
    return loss


def _is_grad(node: cst.BaseExpression) -> bool:
    """True for `p.grad`, `p.grad.data`, `p.grad.detach().float()`."""
    while isinstance(node, (cst.Attribute, cst.Call)):
        if isinstance(node, cst.Attribute) and node.attr.value == "grad":
            return True
        node = node.func if isinstance(node, cst.Call) else node.value
    return False


def _inverse(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """S in `1 / S`."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
        return node.right if literal_value(node.left) == 1 else None
    return None
