"""Positions that pass through the dtype of a half tensor: above 2048 half has no odd numbers, above 65504 none at all.

    frame = signal.new_tensor(frame).long()    =>    frame = signal.float().new_tensor(frame).long()

The new tensor is wanted for its device; its dtype is the signal's by accident, and the cast to integers shows that the
numbers have to be exact.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts.tree import called_name
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.operands import is_of_module

_TO_INTEGERS = frozenset(("long", "int"))
_INTEGERS = frozenset("torch.long torch.int torch.int64 torch.int32 torch.LongTensor".split())


def keep_positions(context: Context) -> None:
    """Float32 for the tensors after which numbers are typed that become integers at once."""
    for call, _ in context.reach.calls():
        for model in _typed_after(context, call):
            if context.precisions.of(model).may_be_half:
                context.safety.keep_float32(model)


def _typed_after(context: Context, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """X of `X.new_tensor(n).long()`, `n.type_as(X).long()` and `n.to(X).long()`."""
    if not isinstance(call.func, cst.Attribute) or not _is_to_integers(context, call):
        return
    made = call.func.value
    if not isinstance(made, cst.Call) or not isinstance(made.func, cst.Attribute):
        return
    if is_of_module(context.facts, made.func) or any(arg.keyword is not None for arg in made.args):
        return
    if called_name(made) == "new_tensor":
        yield made.func.value
    elif called_name(made) in ("type_as", "to") and len(made.args) == 1 and _is_tensor(context, made.args[0].value):
        yield made.args[0].value


def _is_to_integers(context: Context, call: cst.Call) -> bool:
    if called_name(call) in _TO_INTEGERS:
        return not call.args
    is_cast = called_name(call) in ("to", "type") and len(call.args) == 1
    return is_cast and context.facts.names.dotted(call.args[0].value) in _INTEGERS


def _is_tensor(context: Context, node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and context.precisions.of(node).is_tensor
