"""Phases that half has rounded: the sine of a large angle is nothing but that rounding.

    phase = torch.matmul(frequencies, time)      =>    with autocast(enabled=False):
    wave = torch.sin(phase)                                phase = torch.matmul(frequencies, time)

From 256 on half numbers are a quarter of a radian apart. Products of frequencies and times (filters that are learned,
Fourier features, rotary positions) run in float32; that is what the authors of rotary embeddings came to write, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts.tree import called_name
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision, tensor_operand
from amp_migrate.plan.safety.products import factors, isolate

_WAVES = frozenset("sin cos".split())
_SHAPES = frozenset("view reshape unsqueeze squeeze transpose t permute repeat_interleave expand repeat float".split())
_JOINS = frozenset("cat stack concat".split())
_ARITHMETIC = (cst.Multiply, cst.Divide, cst.Add, cst.Subtract)
_DEEPEST = 8


def isolate_phases(context: Context) -> None:
    """An island without autocast for each product of matrices whose sine or cosine is taken."""
    for call, _ in list(context.reach.calls()):
        angle = tensor_operand(context.facts, call) if called_name(call) in _WAVES else None
        for product in _products(context, angle, _DEEPEST) if angle is not None else ():
            if context.precisions.of(product) is Precision.HALF:
                isolate(context, product, factors(context.facts, product), "its sine or cosine is taken")


def _products(context: Context, node: cst.BaseExpression, depth: int) -> Iterator[cst.BaseExpression]:
    """The products of matrices that an angle is made of by shaping, joining and arithmetic."""
    parts: list[cst.BaseExpression] = []
    if factors(context.facts, node):
        yield node
    elif isinstance(node, cst.Name):
        value = context.precisions.value_before(node)
        parts = [value] if value is not None else []
    elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _ARITHMETIC):
        parts = [node.left, node.right]
    elif isinstance(node, cst.Subscript):
        parts = [node.value]
    elif isinstance(node, cst.Call) and called_name(node) in _JOINS and node.args:
        joined = node.args[0].value
        parts = [one.value for one in joined.elements] if isinstance(joined, (cst.List, cst.Tuple)) else []
    elif isinstance(node, cst.Call) and called_name(node) in _SHAPES:
        taken = tensor_operand(context.facts, node)
        parts = [taken] if taken is not None else []
    if depth:
        for part in parts:
            yield from _products(context, part, depth - 1)
