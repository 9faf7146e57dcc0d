"""Tensors of a number that half cannot hold, such as a buffer of -1e9.

    self.register_buffer("low", torch.tensor(-1e9))
    torch.where(seen, scores, self.low)              without dimensions, it takes the type of half scores: infinity
    self.low.to(scores.dtype)                        and so does one with dimensions that is moved to that type

What is moved gets float32 where the tensor whose type it takes is cast before:

    low = self.low.to(scores.dtype)        =>        scores = scores.float()
                                                     low = self.low.to(scores.dtype)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from amp_migrate.facts.each_once import each_once
from amp_migrate.facts.tree import argument_value, called_name
from amp_migrate.findings import Refusal
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.numbers import overflows
from amp_migrate.plan.safety.operands import is_of_module
from amp_migrate.rules.safety import BEYOND_HALF

_MOVING = frozenset("to type type_as cuda cpu float double detach clone contiguous".split())
_OF_ONE = frozenset("tensor as_tensor scalar_tensor new_tensor".split())
_OF_SHAPE = frozenset("full new_full".split())


def is_large(context: Context, node: cst.BaseExpression) -> bool:
    """True for a number beyond half, and for a tensor without dimensions that holds one."""
    return overflows(context.facts, node) or any(_has_no_dimensions(one) for one in _made(context, node))


def keep_moved_numbers(context: Context) -> None:
    """Float32 for the tensors whose type one of a large number takes. Raises Refusal where they have no name."""
    for call, statement in context.reach.calls():
        model = _whose_type(context, call)
        value = context.values.of(model) if model is not None else None
        if model is None or value is None or value.is_open or not value.may_be_half:
            continue  # rays and the like come from outside, and are float32
        if not any(True for _ in _made(context, call)):
            continue
        if isinstance(model, cst.Name):
            context.safety.rebound.append((statement, model.value))
        else:
            text = context.facts.text(call)
            raise Refusal(BEYOND_HALF, call, f"{text} is half under autocast, and too large a number for it")


def _whose_type(context: Context, call: cst.Call) -> cst.BaseExpression | None:
    """X of `number.to(X)`, `number.to(X.dtype)`, `number.type_as(X)` and `torch.tensor(-1e9, dtype=X.dtype)`."""
    given = argument_value(call, "dtype")
    if called_name(call) in ("to", "type", "type_as") and given is None and call.args:
        given = call.args[0].value
    if isinstance(given, cst.Attribute) and given.attr.value == "dtype":
        return given.value
    takes_tensor = called_name(call) in ("to", "type_as") and isinstance(given, (cst.Name, cst.Attribute))
    return given if takes_tensor else None


def _made(context: Context, node: cst.BaseExpression) -> Iterator[cst.Call]:
    """The calls that make the tensor of a large number that an expression may mean."""
    for value in each_once(_values(context, node), partial(_moved, context)):
        if isinstance(value, cst.Call) and _holds_large(context, value):
            yield value


def _moved(context: Context, value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a value is that is moved, or becomes a parameter, as a large number may be."""
    if not isinstance(value, cst.Call) or _holds_large(context, value):
        return []
    if called_name(value) == "Parameter" and value.args:
        return _values(context, value.args[0].value)
    if not isinstance(value.func, cst.Attribute) or called_name(value) not in _MOVING:
        return []
    return [] if is_of_module(context.facts, value.func) else _values(context, value.func.value)


def _values(context: Context, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, cst.Name):
        value = context.precisions.value_before(node)
        return [value] if value is not None else context.facts.objects.values_of(node)
    if isinstance(node, cst.Attribute):
        return [*context.facts.objects.values_of(node), *context.precisions.buffers.get(node.attr.value, [])]
    return [node]


def _holds_large(context: Context, call: cst.Call) -> bool:
    """True for `torch.tensor(-1e9)`, `torch.tensor([-1e9])` and `torch.full(shape, -1e9)`."""
    given = None
    if called_name(call) in _OF_ONE:
        given = argument_value(call, "data", 0)
    elif called_name(call) in _OF_SHAPE:
        given = argument_value(call, "fill_value", 1)
    if given is None:
        return False
    parts = [one.value for one in given.elements] if isinstance(given, (cst.List, cst.Tuple)) else [given]
    return any(overflows(context.facts, part) for part in parts)


def _has_no_dimensions(call: cst.Call) -> bool:
    first = call.args[0].value
    if called_name(call) in _OF_SHAPE:
        return isinstance(first, (cst.List, cst.Tuple)) and not first.elements
    return not isinstance(first, (cst.List, cst.Tuple))
