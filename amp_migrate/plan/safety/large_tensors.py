"""Tensors of a number that half cannot hold, such as a buffer of -1e9.

    self.register_buffer("low", torch.tensor(-1e9))
    torch.where(seen, scores, self.low)              without dimensions, it takes the type of half scores: infinity
    self.low.to(scores.dtype)                        and so does one with dimensions that is moved to that type

What is moved gets float32 where the tensor whose type it takes is cast before:

    low = self.low.to(scores.dtype)        =>        scores = scores.float()
                                                     low = self.low.to(scores.dtype)
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts.tree import argument_value, called_name
from amp_migrate.findings import Refusal
from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.models import Operation, traits
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.numbers import overflows
from amp_migrate.plan.safety.passing import moves
from amp_migrate.rules.safety import BEYOND_HALF


def is_large(context: Context, node: cst.BaseExpression) -> bool:
    """True for a number beyond half, and for a tensor without dimensions that holds one."""
    return overflows(context.facts, node) or any(_has_no_dimensions(one) for one in _made(context, node))


def keep_moved_numbers(context: Context) -> None:
    """Float32 for the tensors whose type one of a large number takes. Raises Refusal where they have no name."""
    for made in context.results:
        model = context.typed_as(made)
        value = context.values.at(model) if model is not None else None
        if model is None or value is None or value.is_open or not value.may_be_half:
            continue  # rays and the like come from outside, and are float32
        if not _made(context, made.node):
            continue
        if isinstance(model.node, cst.Name):
            context.safety.rebound.append((context.facts.tree.statement_of(made.node), model.node.value))
        else:
            text = context.facts.text(made.node)
            raise Refusal(BEYOND_HALF, made.node, f"{text} is half under autocast, and too large a number for it")


def _made(context: Context, node: cst.BaseExpression) -> list[cst.Call]:
    """The calls that make the tensor of a large number that an expression may mean."""
    ways = context.trace(Place(node), _moves_or_keeps, lambda made: _holds_large(context, made))
    found = (one.node for one in ways.ends if _holds_large(context, one))
    return [one for one in found if isinstance(one, cst.Call)]


def _moves_or_keeps(row: Operation) -> bool:
    """A parameter holds what it is made of."""
    return moves(row) or row.result == "weight"


def _holds_large(context: Context, made: Made) -> bool:
    """True for `torch.tensor(-1e9)`, `torch.tensor([-1e9])` and `torch.full(shape, -1e9)`."""
    given = None
    if isinstance(made.node, cst.Call) and made.is_a("of data"):
        given = argument_value(made.node, "data", 0)
    elif isinstance(made.node, cst.Call) and made.is_a("of one number"):
        given = argument_value(made.node, "fill_value", 1)
    if given is None:
        return False
    parts = [one.value for one in given.elements] if isinstance(given, (cst.List, cst.Tuple)) else [given]
    return any(overflows(context.facts, part) for part in parts)


def _has_no_dimensions(call: cst.Call) -> bool:
    """True for `torch.tensor(-1e9)` and `torch.full((), -1e9)`."""
    first = call.args[0].value
    if called_name(call) in traits.named("of one number"):
        return isinstance(first, (cst.List, cst.Tuple)) and not first.elements
    return not isinstance(first, (cst.List, cst.Tuple))
