"""Products of matrices in the code that a forward reaches: what they are made of, and how they run in float32."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name
from amp_migrate.findings import Refusal
from amp_migrate.interp.place import Place
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.operands import is_of_module
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
    factors_of = {product: operands, **beside}
    for part in reversed(parts):  # what is inside comes first
        _keep(context, factors_of.get(part, []))
        _keep_what_autocast_did(context, part)


def _keep_what_autocast_did(context: Context, part: cst.BaseExpression) -> None:
    """Float32 for what autocast would have made float32 beside the product: the X of `X.pow(2)`, `X ** 2` and
    `F.mse_loss(X, Y)`, and its Y where that is half.
    """
    made = context.steps.of(Place(part)).made if isinstance(part, (cst.Call, cst.BinaryOperation)) else ()
    for one in made:
        if any(row is not None and (row.policy == "single" or row.bare in ADDED) for row in one.operations):
            _keep(context, [given.node for given in one.operands if _is_cast_by_autocast(context, given)])


def _is_cast_by_autocast(context: Context, given: Place) -> bool:
    """True for what is half, and for a name that may be."""
    value = context.values.at(given)
    return value.is_half or (value.may_be_half and isinstance(given.node, (cst.Name, cst.Attribute, cst.Subscript)))


def _keep(context: Context, operands: list[cst.BaseExpression]) -> None:
    for operand in operands:
        if not is_single_alone(context, operand):
            context.safety.keep_float32(operand)


def is_single_alone(context: Context, operand: cst.BaseExpression) -> bool:
    """True for what is not half without autocast as well: `F.normalize(x)` of a half tensor is half in an island."""
    return _is_buffer(context, operand) or not context.values.alone(operand).may_be_half


def _is_buffer(context: Context, operand: cst.BaseExpression) -> bool:
    """True for a registered buffer, or a part of one, that nobody assigns: no forward makes those."""
    whole = operand.value if isinstance(operand, cst.Subscript) else operand
    if not isinstance(whole, cst.Attribute) or context.facts.objects.values_of(whole):
        return False
    return whole.attr.value in context.precisions.buffers
