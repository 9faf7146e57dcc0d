"""What autocast does not touch: what is done with a loss after it is made, `loss = loss.mean() / k`, and with targets
that were made without gradients before the forward, `targets = torch.cat([labels, guessed])`.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import trace
from amp_migrate.interp.steps import Steps
from amp_migrate.models import names
from amp_migrate.models.queries import in_half, is_scalar_arithmetic, is_sum, keeps_numbers_or_floats
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.half_parts import may_be_half

_OPERATIONS = (cst.Call, cst.BinaryOperation, cst.UnaryOperation, cst.Comparison)
_SAME = ("", "widest")  # of autocast: nothing, and what torch promotes to anyway


def is_trailing_arithmetic(statement: Statement, needed: set[Statement]) -> bool:
    """True for arithmetic that autocast does not touch: `loss = loss / k`, `loss = loss.mean()`.

    Of a compound statement only what is needed for the loss counts; `with open(path) as file:` is none where the loss
    needs the file itself.
    """
    node = statement.node
    if isinstance(node, (cst.If, cst.With)):
        parts = [inner for inner in statement.descendants() if inner in needed]
        is_made = statement in parts
        return bool(parts) and not is_made and all(is_trailing_arithmetic(inner, needed) for inner in parts)
    if isinstance(node, cst.AugAssign):
        return _is_arithmetic(node.value)
    if isinstance(node, cst.Assign):
        return not isinstance(node.value, (cst.Name, cst.Attribute, cst.Subscript)) and _is_arithmetic(node.value)
    return False


def is_leading_arithmetic(forwards: Forwards, statement: Statement) -> bool:
    """True for an assignment that autocast does not touch."""
    return isinstance(statement.node, (cst.Assign, cst.AugAssign)) and is_untouched(forwards, statement)


def is_untouched(forwards: Forwards, statement: Statement) -> bool:
    """True where each operation of a statement itself does the same without autocast, and is given nothing in half."""
    parts = (part for part in forwards.facts.tree.expressions(statement) if isinstance(part, _OPERATIONS))
    return all(_does_the_same(forwards, part) for part in parts)


def _does_the_same(forwards: Forwards, node: cst.BaseExpression) -> bool:
    steps = forwards.facts.analysis(Steps)
    if isinstance(node, cst.Call) and steps.calls.entered(node):
        return False
    step = steps.of(Place(node))
    is_known = not step.is_lost and not step.same
    is_same = is_known and all(row is not None and row.policy in _SAME and row.kind != "layer" for row in step.rows)
    return is_same and not any(_is_made_in_half(forwards, one) for made in step.made for one in made.operands)


def _is_made_in_half(forwards: Forwards, place: Place) -> bool:
    """True for what may be half, and comes from a product or a forward."""
    if not may_be_half(forwards.facts, place):
        return False
    ways = trace(forwards.facts.analysis(Steps), place, lambda row: not in_half(row))
    calls = (one.node for one in ways.open if isinstance(one.node, cst.Call))
    return bool(ways.ends) or any(map(forwards.is_forward, calls))


def computes(loss: cst.BaseExpression) -> bool:
    """True for an expression that does more with a loss than such arithmetic: `criterion(out, y)`."""
    plain = names(is_scalar_arithmetic) | names(is_sum) | names(keeps_numbers_or_floats)
    return any(isinstance(part, cst.Call) and called_name(part) not in plain for part in walk(loss))


def _is_setting(node: cst.Call) -> bool:
    """True for `config.get("weight", 1)`."""
    return called_name(node) == "get" and bool(node.args) and isinstance(node.args[0].value, cst.SimpleString)


def _is_arithmetic(node: cst.BaseExpression) -> bool:
    if isinstance(node, (cst.Name, cst.BaseNumber, cst.SimpleString)):
        return True
    if isinstance(node, (cst.Attribute, cst.Subscript)):
        return _is_arithmetic(node.value)
    if isinstance(node, cst.BinaryOperation):
        plain = isinstance(node.operator, (cst.Add, cst.Subtract, cst.Multiply, cst.Divide))
        return plain and _is_arithmetic(node.left) and _is_arithmetic(node.right)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, (cst.Minus, cst.Plus)) and _is_arithmetic(node.expression)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        values = (node.func.value, *(arg.value for arg in node.args))
        plain = node.func.attr.value in names(is_scalar_arithmetic) or _is_setting(node)
        return plain and all(_is_arithmetic(value) for value in values)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        return node.func.value in ("len", "float", "int") and len(node.args) == 1
    return False
