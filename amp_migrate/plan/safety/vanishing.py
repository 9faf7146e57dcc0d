"""Small constants that half rounds to zero: the 1e-8 that keeps a logarithm or a division from zero.

    -torch.log(p + 1e-8)       =>    -torch.log(p.float() + 1e-8)
    a / (b.clamp(min=1e-12))   =>    a / (b.float().clamp(min=1e-12))
    torch.clamp(p, 1e-4, 1 - 1e-4)   =>    torch.clamp(p.float(), 1e-4, 1 - 1e-4)
    x / (variance + 1e-8) ** 0.5     =>    x / (variance.float() + 1e-8) ** 0.5

    variance = x.var(1)              =>    variance = x.float().var(1)        (a variance has vanished before)

So is what an output is divided by, whose square the gradient is divided by: half has none below 1.5e-5.

    rays[..., :2] / rays[..., 2:]    =>    rays[..., :2] / rays[..., 2:].float()

So are bounds just below one, which keep `log(1 - p)` finite. log casts to float32, but what it takes was rounded
before: log(0), and NaN gradients ([run]). Sums, norms and exponentials are float32 under autocast; what is added to
them stays. A product of float32 matrices that goes into a logarithm, or is divided by, is what autocast would round:
it runs outside.

    mel = torch.matmul(amplitude, self.filters)        =>    with autocast(enabled=False):
    torch.log(mel.clamp(min=1e-10))                              mel = torch.matmul(amplitude, self.filters)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.models import Operation
from amp_migrate.models.queries import in_half
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.numbers import becomes_one, numbers, vanishes
from amp_migrate.plan.safety.passing import moves
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import factors, is_same, is_single_alone


def keep_epsilons(context: Context) -> None:
    """Float32 for what a vanishing constant is added to, under a logarithm, a root or a fraction."""
    for made in context.results:
        is_function = made.is_a("pole") and made.operation is not None and made.operation.kind == "function"
        for argument in with_a_pole(context, made):
            ends = context.trace(argument, moves).ends
            is_product = made.is_a("quotient") and any(_is_product(context, one) for one in ends)
            if is_product and context.precisions.of(argument.node).is_tensor and not _isolate(context, argument.node):
                context.safety.keep_float32(context.innermost(argument.node))
            for end in ends:
                for operand in _guarded(context, end) if context.runs(end.node) else ():
                    _keep(context, operand.node, certainly_tensor=is_function)
        if _bounds_anew(made):  # what else would keep a value from zero
            _keep_bounded(context, made)


def with_a_pole(context: Context, made: Made) -> Iterator[Place]:
    """X of `torch.log(X)`, `y / X`, `X ** 0.5` and `X.pow(-1)`: zero is no argument, or has no derivative."""
    if made.is_a("quotient"):
        yield from made.operands[1:2]
    elif made.is_a("pole") or (made.is_a("power") and any(_is_root(context, one) for one in made.operands[1:])):
        yield from made.operands[:1]


def _is_product(context: Context, made: Made) -> bool:
    """True for what a layer or a function of torch makes half at last: arrays of NumPy have `@` as well."""
    last = made.operations[-1]
    is_of_torch = last is not None and in_half(last) and last.kind != "method"
    return is_of_torch and context.precisions.of(made.node) is Precision.HALF


def _is_root(context: Context, exponent: Place) -> bool:
    """True for an exponent below one: 0.5, -0.5, -1."""
    return any(one < 1 and one != 0 for one in numbers(context.facts, exponent.node))


def _guarded(context: Context, made: Made) -> Iterator[Place]:
    """X of `X + 1e-8` and `X.clamp(min=1e-8)`."""
    if made.is_a("sum of two") and len(made.operands) == 2:
        for constant, other in (made.operands[::-1], made.operands):
            if vanishes(context.facts, constant.node):
                yield other
                return
    elif _bounds_anew(made) and any(vanishes(context.facts, one) for one in _bounds(made)):
        yield made.operands[0]


def _bounds_anew(made: Made) -> bool:
    """True for a clamp that leaves what it is given as it is: in place, it would change a copy. A bound that is made by
    `torch.full_like(x, 1e-8)` is rounded itself.
    """
    is_bound = made.is_a("bound") or made.is_a("like")
    return is_bound and made.operation is not None and not made.operation.in_place and bool(made.operands)


def _bounds(made: Made) -> list[cst.BaseExpression]:
    return [arg.value for arg in made.node.args] if isinstance(made.node, cst.Call) else []


def _keep_bounded(context: Context, made: Made) -> None:
    operand = made.operands[0].node
    if any(vanishes(context.facts, one) for one in _bounds(made)):
        _keep(context, operand, certainly_tensor=False)
    if any(becomes_one(context.facts, one) for one in _bounds(made)):
        found = context.precisions.of(operand)
        if found.may_be_half or (found is Precision.UNKNOWN and _is_whole(operand)):
            context.safety.keep_float32(operand)


def _keep(context: Context, operand: cst.BaseExpression, *, certainly_tensor: bool) -> None:
    if _isolate(context, operand):
        return
    for square in _squares_in_half(context, operand):
        context.safety.keep_float32(square.operands[0].node)
    found = context.precisions.of(operand)
    if found.may_be_half or (certainly_tensor and found is Precision.UNKNOWN and _is_whole(operand)):
        context.safety.keep_float32(context.innermost(operand))


def _squares_in_half(context: Context, operand: cst.BaseExpression) -> Iterator[Made]:
    """Variances and squares that have vanished in half before the constant is added: those of 2e-4 are zero."""
    for made in context.trace(Place(operand), _averages).ends:
        is_square = made.is_a("product of numbers") and is_same(context, made.operands)
        if (made.is_a("variance") or is_square) and context.runs(made.node):
            if context.values.at(made.operands[0]).is_half:
                yield made


def _averages(row: Operation) -> bool:
    return moves(row) or row.is_a("mean") or row.is_a("sum")


def _isolate(context: Context, operand: cst.BaseExpression) -> bool:
    """True where the operand is a product of float32 matrices, which runs outside of autocast now."""
    products = context.trace(Place(operand), moves).ends
    if not products or not all(_is_of_float32(context, one) for one in products):
        return False
    statements = [(context.facts.tree.statement_of(one.node), one.node) for one in products]
    if not all(one in context.safety.islands or context.can_be_island(one, node) for one, node in statements):
        return False
    for statement, _ in statements:
        context.safety.isolate(statement)
    return True


def _is_of_float32(context: Context, made: Made) -> bool:
    pair = factors(context, made)
    return bool(pair) and all(is_single_alone(context, one.node) for one in pair)


def _is_whole(operand: cst.BaseExpression) -> bool:
    return isinstance(operand, (cst.Name, cst.Call, cst.Attribute, cst.Subscript))
