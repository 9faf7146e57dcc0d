"""Small constants that half rounds to zero: the 1e-8 that keeps a logarithm or a division from zero.

    -torch.log(p + 1e-8)       =>    -torch.log(p.float() + 1e-8)
    a / (b.clamp(min=1e-12))   =>    a / (b.float().clamp(min=1e-12))
    torch.clamp(p, 1e-4, 1 - 1e-4)   =>    torch.clamp(p.float(), 1e-4, 1 - 1e-4)
    x / (variance + 1e-8) ** 0.5     =>    x / (variance.float() + 1e-8) ** 0.5

So are bounds just below one, which keep `log(1 - p)` finite. log casts to float32, but what it takes was rounded
before: log(0), and NaN gradients ([run]). Sums, norms and exponentials are float32 under autocast; what is added to
them stays. A product of float32 matrices that goes into a logarithm is what autocast would round: it runs outside.

    mel = torch.matmul(amplitude, self.filters)        =>    with autocast(enabled=False):
    torch.log(mel.clamp(min=1e-10))                              mel = torch.matmul(amplitude, self.filters)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts.tree import called_name
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.numbers import becomes_one, numbers, vanishes
from amp_migrate.plan.safety.operands import tensor_operand
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import factors, is_single_alone

# Functions of tensors only, for which zero is no argument or has no derivative.
_ROOTS = frozenset("log log2 log10 sqrt rsqrt reciprocal".split())
_CLAMPS = frozenset("clamp clamp_min clip".split())


def keep_epsilons(context: Context) -> None:
    """Float32 for what a vanishing constant is added to, under a logarithm, a root or a fraction."""
    for statement in context.reach.statements:
        for part in context.facts.tree.expressions(statement):
            if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.Divide):
                _keep(context, part.right, certainly_tensor=False)
            elif isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.Power):
                if _is_root(context, part.right):
                    _keep(context, part.left, certainly_tensor=False)
            elif isinstance(part, cst.Call) and called_name(part) == "pow":
                operand = _argument(context, part)
                if operand is not None and any(_is_root(context, arg.value) for arg in part.args):
                    _keep(context, operand, certainly_tensor=False)
            elif isinstance(part, cst.Call) and called_name(part) in _CLAMPS:
                _keep(context, part, certainly_tensor=False)  # what else would keep a value from zero
                operand = tensor_operand(context.facts, part)
                if operand is not None and any(becomes_one(context.facts, arg.value) for arg in part.args):
                    found = context.precisions.of(operand)
                    if found.may_be_half or (found is Precision.UNKNOWN and _is_whole(operand)):
                        context.safety.keep_float32(operand)
            elif isinstance(part, cst.Call) and called_name(part) in _ROOTS:
                operand = _argument(context, part)
                if operand is not None:
                    _keep(context, operand, certainly_tensor=context.facts.names.dotted(part.func) is not None)


def _is_root(context: Context, exponent: cst.BaseExpression) -> bool:
    """True for an exponent below one: 0.5, -0.5, -1."""
    return any(one < 1 and one != 0 for one in numbers(context.facts, exponent))


def _argument(context: Context, call: cst.Call) -> cst.BaseExpression | None:
    """X of `torch.log(X)`, `X.log()`, and of `self.log(X)` with `self.log = torch.log`."""
    if isinstance(call.func, cst.Attribute) and call.args:
        held = [context.facts.names.dotted(one) or "" for one in context.facts.objects.values_of(call.func)]
        if held and all(name.startswith("torch.") for name in held):
            return call.args[0].value
    return tensor_operand(context.facts, call)


def _keep(context: Context, node: cst.BaseExpression, *, certainly_tensor: bool) -> None:
    value = context.precisions.value_before(node) if isinstance(node, cst.Name) else None
    for operand in _guarded(context, value if value is not None else node):
        if _isolate(context, operand):
            continue
        found = context.precisions.of(operand)
        if found.may_be_half or (certainly_tensor and found is Precision.UNKNOWN and _is_whole(operand)):
            context.safety.keep_float32(_innermost(context, operand))


def _isolate(context: Context, operand: cst.BaseExpression) -> bool:
    """True where the operand is a product of float32 matrices, which runs outside of autocast now."""
    product = context.precisions.behind(operand)
    pair = factors(context.facts, product) if product is not None else []
    if product is None or not pair or not all(is_single_alone(context, one) for one in pair):
        return False
    statement = context.facts.tree.statement_of(product)
    if statement not in context.safety.islands and not context.can_be_island(statement, product):
        return False
    context.safety.isolate(statement)
    return True


def _guarded(context: Context, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """X of `X + 1e-8` and `X.clamp(min=1e-8)`."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        if vanishes(context.facts, node.right):
            yield node.left
        elif vanishes(context.facts, node.left):
            yield node.right
    elif isinstance(node, cst.Call) and called_name(node) in _CLAMPS:
        operand = tensor_operand(context.facts, node)
        if operand is not None and any(vanishes(context.facts, arg.value) for arg in node.args):
            yield operand


def _is_whole(operand: cst.BaseExpression) -> bool:
    return isinstance(operand, (cst.Name, cst.Call, cst.Attribute, cst.Subscript))


def _innermost(context: Context, operand: cst.BaseExpression) -> cst.BaseExpression:
    """P of `1 - P`: the tensor rather than the arithmetic around it, which would round as well."""
    while isinstance(operand, cst.BinaryOperation):
        left, right = context.precisions.of(operand.left), context.precisions.of(operand.right)
        if left is Precision.NUMBER:
            operand = operand.right
        elif right is Precision.NUMBER:
            operand = operand.left
        else:
            break
    return operand
