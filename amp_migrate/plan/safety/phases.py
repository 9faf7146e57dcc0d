"""Phases that half has rounded: the sine of a large angle is nothing but that rounding.

    phase = torch.matmul(frequencies, time)      =>    with autocast(enabled=False):
    wave = torch.sin(phase)                                phase = torch.matmul(frequencies, time)

From 256 on half numbers are a quarter of a radian apart. Products of frequencies and times (filters that are learned,
Fourier features, rotary positions) run in float32; that is what the authors of rotary embeddings came to write, too.
"""

from __future__ import annotations

from functools import partial

import libcst as cst

from amp_migrate.facts.each_once import each_once
from amp_migrate.facts.tree import called_name
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision, tensor_operand
from amp_migrate.plan.safety.products import factors, isolate

_WAVES = frozenset("sin cos".split())
_SHAPES = frozenset("view reshape unsqueeze squeeze transpose t permute repeat_interleave expand repeat float".split())
_JOINS = frozenset("cat stack concat".split())
_ARITHMETIC = (cst.Multiply, cst.Divide, cst.Add, cst.Subtract)


def isolate_phases(context: Context) -> None:
    """An island without autocast for each product of matrices whose sine or cosine is taken."""
    for call, _ in list(context.reach.calls()):
        angle = tensor_operand(context.facts, call) if called_name(call) in _WAVES else None
        for node in each_once([angle], partial(_parts, context)) if angle is not None else ():
            operands = factors(context.facts, node)
            if operands and context.precisions.of(node) is Precision.HALF:
                isolate(context, node, operands, "its sine or cosine is taken")


def _parts(context: Context, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What an angle that is no product itself is made of by shaping, joining and arithmetic."""
    if factors(context.facts, node):
        return []
    if isinstance(node, cst.Name):
        value = context.precisions.value_before(node)
        return [value] if value is not None else []
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _ARITHMETIC):
        return [node.left, node.right]
    if isinstance(node, cst.Subscript):
        return [node.value]
    if isinstance(node, cst.Call) and called_name(node) in _JOINS and node.args:
        joined = node.args[0].value
        return [one.value for one in joined.elements] if isinstance(joined, (cst.List, cst.Tuple)) else []
    if isinstance(node, cst.Call) and called_name(node) in _SHAPES:
        taken = tensor_operand(context.facts, node)
        return [taken] if taken is not None else []
    return []
