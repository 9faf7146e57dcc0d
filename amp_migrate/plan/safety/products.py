"""Products of matrices in the code that a forward reaches: what they are made of, and how they run in float32."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from amp_migrate.findings import Refusal
from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.models.queries import in_half
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.numbers import numbers
from amp_migrate.rules.safety import BCE_ON_PROBABILITIES, LINEAR_ALGEBRA, PRODUCT_IN_HALF


def factors(context: Context, made: Made) -> tuple[Place, ...]:
    """The two tensors that a product multiplies; none for other results, and for layers."""
    if not context.is_product(made):
        return ()
    pair = made.operands[-2:] if made.is_a("sum with a product") else tensors(made)[:2]
    return pair if len(pair) == 2 and not _is_of_more(made) else ()


def multiplies(context: Context, made: Made) -> bool:
    """`x * y` of tensors, `x.square()`, and a power of 2."""
    if made.is_a("product of numbers"):
        given = [context.values.at(one) for one in made.operands]
        return is_same(context, made.operands) or all(one.dtypes and one.is_tensor for one in given)
    exponents = [one for place in made.operands[1:] for one in numbers(context.facts, place.node)]
    return made.is_a("square") and (exponents == [2] or not made.is_a("power"))


def is_same(context: Context, operands: Sequence[Place]) -> bool:
    """True for what is written alike: X and X of `X * X`."""
    return len({context.facts.text(one.node) for one in operands}) == 1


def ends_in_half(made: Made) -> bool:
    """True for a product, and for a layer or a container that ends with one."""
    return made.operations[-1] is not None and in_half(made.operations[-1])


def _is_of_more(made: Made) -> bool:
    """True for an einsum of three."""
    return made.operation is not None and made.operation.inputs == 2 and len(made.operands) > 2


def tensors(made: Made) -> tuple[Place, ...]:
    """What autocast casts for an operation: no stride of a convolution."""
    if made.operation is None or made.operation.inputs <= 2 or made.is_a("sum with a product"):
        return made.operands
    return made.operands[: made.operation.inputs]


def keep_product(context: Context, product: cst.BaseExpression, why: str = "a binary cross entropy takes it") -> None:
    """Float32 for a product that makes a probability: an island under autocast, its factors outside. Raises Refusal."""
    statement = context.facts.tree.statement_of(product)
    for made in context.made(product):
        if statement not in context.reach.statements:
            _keep(context, tensors(made))
            continue
        isolate(context, made, why)
        if statement not in context.safety.islands:
            message = f"{context.facts.text(product)} makes a probability in half"
            raise Refusal(BCE_ON_PROBABILITIES, product, message)


def isolate(context: Context, product: Made, why: str, *inside: cst.BaseExpression) -> None:
    """An island without autocast for a product and those beside it, whose operands are float32 in it; a note that says
    `why` it should be one, where there can be none. What is `inside` needs no autocast.
    """
    statement = context.facts.tree.statement_of(product.node)
    parts = [part for part in context.facts.tree.expressions(statement) if isinstance(part, cst.BaseExpression)]
    made = [one for part in reversed(parts) for one in context.made(part)]  # what is inside comes first
    beside = [one for one in made if factors(context, one) or one.operations == product.operations]
    multiplied = [product, *(one for one in beside if one != product)]
    if not context.can_be_island(statement, *inside, *(one.node for one in multiplied)):
        context.note(product.node, PRODUCT_IN_HALF, f"{context.facts.text(product.node)} runs in half, and {why}")
        return
    context.safety.isolate(statement)
    for one in made:
        if one in multiplied:
            _keep(context, tensors(one))
        elif any(row is not None and row.policy == "single" for row in one.operations):
            _keep(context, [given for given in one.operands if _is_cast_by_autocast(context, given)])


def isolate_alone(context: Context, made: Made, what: str) -> None:
    """An island without autocast for a call that would raise under it. Raises Refusal, which says `what` it does, where
    something else in its statement needs autocast.
    """
    statement = context.facts.tree.statement_of(made.node)
    if statement not in context.safety.islands and not context.can_be_island(statement, made.node):
        text = context.facts.text(made.node)
        raise Refusal(LINEAR_ALGEBRA, made.node, f"{text} {what}, beside what needs autocast")
    context.safety.isolate(statement)


def _is_cast_by_autocast(context: Context, given: Place) -> bool:
    """True for what autocast would have made float32 beside the product, the X of `X.pow(2)`, `X ** 2` and
    `F.mse_loss(X, Y)`: what is half, and a name that may be.
    """
    value = context.values.at(given)
    return value.is_half or (value.may_be_half and isinstance(given.node, (cst.Name, cst.Attribute, cst.Subscript)))


def _keep(context: Context, operands: Iterable[Place]) -> None:
    for operand in operands:
        if not is_single_alone(context, operand.node):
            context.safety.keep_float32(context.innermost(operand.node))


def is_single_alone(context: Context, operand: cst.BaseExpression) -> bool:
    """True for what is not half without autocast as well: `F.normalize(x)` of a half tensor is half in an island."""
    return _is_buffer(context, operand) or not context.values.alone(operand).may_be_half


def _is_buffer(context: Context, operand: cst.BaseExpression) -> bool:
    """True for a registered buffer, or a part of one, that nobody assigns: no forward makes those."""
    whole = operand.value if isinstance(operand, cst.Subscript) else operand
    if not isinstance(whole, cst.Attribute) or context.facts.objects.values_of(whole):
        return False
    return whole.attr.value in context.steps.buffers
