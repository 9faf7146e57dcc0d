"""Constants that half cannot hold, such as -1e9 for what a mask hides.

masked_fill, full_like, fill_ and clamp raise for half ("value cannot be converted to type c10::Half without
overflow"), and so does an assignment by a mask on a GPU, where the number is filled into a half tensor first (pytorch
issue 6292; [run] on the CPU, it gives infinity). where, products and sums give infinity, and a softmax of nothing but
infinities is NaN ([run], torch 2.13). `.float()` before the constant is exact, and costs nothing: softmax runs in
float32 anyway.

    scores = scores.masked_fill(mask, -1e9)       =>    scores = scores.float().masked_fill(mask, -1e9)
    scores.masked_fill_(mask, -1e9)               =>    scores = scores.float()
                                                        scores.masked_fill_(mask, -1e9)
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.dataflow import writes
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.findings import Refusal
from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.freshness import is_fresh
from amp_migrate.plan.safety.large_tensors import is_large
from amp_migrate.plan.safety.numbers import is_read, overflows
from amp_migrate.plan.safety.passing import moves
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.rules.safety import BEYOND_HALF

_ARITHMETIC = ("sum of two", "difference", "product of numbers")


def keep_masks(context: Context) -> None:
    """Float32 for what a large constant is written into, or computed with. Raises Refusal."""
    for made in context.results:
        if made.is_a("choice") and len(made.operands) == 3:
            _where(context, made)
        elif made.is_a("fill") or made.is_a("bound"):
            _fill(context, made)
        elif len(made.operands) == 2 and any(map(made.is_a, _ARITHMETIC)):
            for constant, other in (made.operands, made.operands[::-1]):
                if is_large(context, constant.node) and context.precisions.of(other.node) is Precision.HALF:
                    _keep(context, other.node)
    for statement in context.reach.statements:
        if isinstance(statement.node, cst.Assign) and is_large(context, statement.node.value):
            for target in statement.node.targets:
                if isinstance(target.target, cst.Subscript):
                    _assigned(context, target.target.value, statement)


def _assigned(context: Context, filled: cst.BaseExpression, statement: Statement) -> None:
    """`scores[mask] = -1e9`. Raises Refusal where others may hold what is certainly half."""
    found = context.precisions.of(filled)
    if found.may_be_half and not _rebind(context, filled, statement) and found is Precision.HALF:
        message = f"a number beyond 65504 is written into {context.facts.text(filled)}, which is half and not only here"
        raise Refusal(BEYOND_HALF, statement.node, message)


def _where(context: Context, made: Made) -> None:
    chosen = [one.node for one in made.operands[1:]]
    for constant, other in (chosen, chosen[::-1]):
        if _is_of_large(context, constant) and context.precisions.of(other).may_be_half:
            _keep(context, other)  # where takes tensors of two types from torch 1.12 on


def _keep(context: Context, node: cst.BaseExpression) -> None:
    """`.float()`, unless what has that name is cast before."""
    statement = context.facts.tree.statement_of(node)
    if not isinstance(node, cst.Name) or not any(
        _is_certainly_before(one, name, statement) for one, name in context.safety.rebound if name == node.value
    ):
        context.safety.keep_float32(node)


def _is_certainly_before(cast: Statement, name: str, use: Statement) -> bool:
    """True for a cast above a statement, or above what holds it, with no other value for that name in between."""
    outer = next((one for one in use.path() if one.block is cast.block and one.index >= cast.index), None)
    if outer is None:
        return False
    between = cast.block.statements[cast.index : outer.index + 1]
    written = (inner for one in between for inner in one.descendants() if inner is not use)
    return not any(path[0] == name for one in written for path in writes(one))


def _is_of_large(context: Context, node: cst.BaseExpression) -> bool:
    """True for a large number, a tensor of it without dimensions, and `-9e15 * torch.ones_like(x)`, which is float32
    as well; and for the names of them.
    """
    ends = context.trace(Place(node), moves).ends
    products = [one for one in ends if one.is_a("product of numbers")]
    return is_large(context, node) or any(
        overflows(context.facts, operand.node) for one in products for operand in one.operands
    )


def _fill(context: Context, made: Made) -> None:
    """Float32 for what a large constant is written into, or bounds. Raises Refusal."""
    call, filled = made.node, made.operands[0].node
    found = context.precisions.of(filled)
    if not isinstance(call, cst.Call) or not _has_large_constant(context, call, unread=found is Precision.HALF):
        return
    if not found.may_be_half and (found is not Precision.UNKNOWN or not made.is_a("fill")):
        return
    in_place = made.operation is not None and made.operation.in_place
    if not in_place or not isinstance(filled, (cst.Name, cst.Attribute, cst.Subscript)):
        context.safety.keep_float32(filled)  # makes a new tensor, or fills one that nobody else holds
        return
    statement = context.facts.tree.statement_of(call)
    if isinstance(filled, cst.Name) and _sets(statement, filled.value):
        context.safety.keep_float32(filled)
        return
    if not _rebind(context, filled, statement) and found is Precision.HALF:
        text = context.facts.text(call.func)
        raise Refusal(BEYOND_HALF, call, f"{text} writes a number beyond 65504 into a half tensor that others may hold")


def _has_large_constant(context: Context, call: cst.Call, *, unread: bool) -> bool:
    """True for a number beyond half, with `unread` for one that only run time knows as well."""
    if any(arg.keyword is not None and arg.keyword.value == "dtype" for arg in call.args):
        return False
    named = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value in ("value", "fill_value")]
    written = named or (call.args[-1:] if not called_name(call).startswith(("pad", "scatter")) else ())
    return any(is_large(context, arg.value) for arg in call.args) or any(
        unread and is_read(context.facts, arg.value) for arg in written
    )


def _sets(statement: Statement, name: str) -> bool:
    """True for `name = ...`."""
    node = statement.node
    return isinstance(node, cst.Assign) and any(
        isinstance(target.target, cst.Name) and target.target.value == name for target in node.targets
    )


def _rebind(context: Context, changed: cst.BaseExpression, statement: Statement) -> bool:
    """Cast a variable before it is changed in place, where no other one can hold the same tensor."""
    if not isinstance(changed, cst.Name) or not is_fresh(context.precisions, changed):
        return False
    if (statement, changed.value) not in context.safety.rebound:
        context.safety.rebound.append((statement, changed.value))
    return True
