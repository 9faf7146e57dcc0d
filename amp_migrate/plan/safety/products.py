"""Products of matrices in the code that a forward reaches: what they are made of, and how they run in float32."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.findings import Refusal
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import IN_FLOAT32, Precision, is_of_module, tensor_operand
from amp_migrate.rules.safety import BCE_ON_PROBABILITIES, PRODUCT_IN_HALF

_PRODUCTS = frozenset("mm bmm matmul".split())
ADDED = frozenset("addmm baddbmm addbmm".split())  # a product, and what is added to it


def factors(facts: Facts, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The two operands of a product of matrices; nothing for other expressions."""
    pair: list[cst.BaseExpression] = []
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
        pair = [node.left, node.right]
    elif isinstance(node, cst.Call) and called_name(node) in _PRODUCTS and isinstance(node.func, cst.Attribute):
        given = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
        pair = given if is_of_module(facts, node.func) else [node.func.value, *given]
    elif isinstance(node, cst.Call) and called_name(node) == "einsum":
        pair = [arg.value for arg in node.args[1:]]
    return pair if len(pair) == 2 else []


def keep_product(context: Context, product: cst.BaseExpression) -> None:
    """Float32 for a product that makes a probability: an island under autocast, its factors outside. Raises Refusal."""
    statement = context.facts.tree.statement_of(product)
    operands = factors(context.facts, product)
    if statement in context.reach.statements:
        isolate(context, product, operands, "a binary cross entropy takes it")
        if statement not in context.safety.islands:
            message = f"{context.facts.text(product)} makes a probability in half"
            raise Refusal(BCE_ON_PROBABILITIES, product, message)
    else:
        _keep(context, operands)


def isolate(context: Context, product: cst.BaseExpression, operands: list[cst.BaseExpression], why: str) -> None:
    """An island without autocast for a product and those beside it, whose operands are float32 in it; a note that says
    `why` it should be one, where there can be none.
    """
    statement = context.facts.tree.statement_of(product)
    parts = [part for part in context.facts.tree.expressions(statement) if isinstance(part, cst.BaseExpression)]
    beside = {part: pair for part in parts if part is not product and (pair := factors(context.facts, part))}
    if not context.can_be_island(statement, product, *beside):
        context.note(product, PRODUCT_IN_HALF, f"{context.facts.text(product)} runs in half, and {why}")
        return
    context.safety.isolate(statement)
    _keep_what_autocast_did(context, statement)
    _keep(context, [*operands, *(one for pair in beside.values() for one in pair)])


def _keep_what_autocast_did(context: Context, statement: Statement) -> None:
    """Float32 for what autocast would have made float32 beside the product: the X of `X.pow(2)`, `X ** 2` and
    `F.mse_loss(X, Y)`, and its Y where that is half.
    """
    for part in context.facts.tree.expressions(statement):
        if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.Power):
            _keep(context, [part.left])
        elif isinstance(part, cst.Call) and called_name(part) in IN_FLOAT32 | ADDED:
            operand = tensor_operand(context.facts, part)
            if isinstance(operand, (cst.Call, cst.BinaryOperation)):
                _keep(context, [operand] if context.precisions.of(operand) is Precision.HALF else [])
            elif operand is not None:
                _keep(context, [operand])
            others = (arg.value for arg in part.args if arg.value is not operand)
            _keep(context, [one for one in others if context.precisions.of(one) is Precision.HALF])


def _keep(context: Context, operands: list[cst.BaseExpression]) -> None:
    for operand in operands:
        if not is_single_alone(context, operand):
            context.safety.keep_float32(operand)


def is_single_alone(context: Context, operand: cst.BaseExpression) -> bool:
    """True for what is float32 without autocast as well: `F.normalize(x)` of a half tensor is half in an island."""
    if _is_buffer(context, operand):
        return True
    casts = (part for part in walk(operand) if isinstance(part, cst.Call) and called_name(part) in IN_FLOAT32)
    arithmetic = [part for part in walk(operand) if isinstance(part, cst.BinaryOperation)]
    powers = [part for part in arithmetic if not _is_cast(context, part.left)]
    return (
        context.precisions.of(operand) is Precision.SINGLE
        and all(_is_single(context, call) for call in casts)
        and not any(isinstance(part.operator, (cst.Power, cst.Divide)) for part in powers)
    )


def _is_buffer(context: Context, operand: cst.BaseExpression) -> bool:
    """True for a registered buffer, or a part of one, that nobody assigns: no forward makes those."""
    whole = operand.value if isinstance(operand, cst.Subscript) else operand
    if not isinstance(whole, cst.Attribute) or context.facts.objects.values_of(whole):
        return False
    return whole.attr.value in context.precisions.buffers


def _is_cast(context: Context, node: cst.BaseExpression) -> bool:
    return any(node is one for one in context.safety.floats)


def _is_single(context: Context, call: cst.Call) -> bool:
    """True for an operation on a float32 tensor that has a name."""
    taken = tensor_operand(context.facts, call)
    if taken is not None and _is_cast(context, taken):
        return True
    return isinstance(taken, (cst.Name, cst.Attribute)) and context.precisions.of(taken) is Precision.SINGLE
