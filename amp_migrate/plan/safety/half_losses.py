"""Losses that are the mean of half values, as those of a critic: the scale itself does not fit into their gradient.

    loss = -critic(fake).mean()        =>    loss = -critic(fake).float().mean()
    for one, other in zip(features, of_real):
        loss += (one - other).abs().mean()        (of features that a critic has put into lists)

The gradient of the mean has the dtype of its result, and 65536 is infinite in half: the first step would be skipped,
and one again whenever the scale has grown back ([run]). Losses of torch are float32 under autocast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TypeGuard

import libcst as cst

from amp_migrate.facts.each_once import each_once
from amp_migrate.facts.tree import called_name
from amp_migrate.models import names
from amp_migrate.models.queries import passes_on
from amp_migrate.plan.model import Backward
from amp_migrate.plan.regions.trail import Frames, Lost, Trail
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.precision import Precision, is_power, tensor_operand

_SHAPES = frozenset("view reshape squeeze".split())


def keep_losses(context: Context, backwards: Iterable[Backward]) -> None:
    """Float32 for what a loss is the mean of, where that is certainly half."""
    for backward in backwards:
        for operand in _means(context, backward.loss):
            if _Halves(context).make(operand):
                context.safety.keep_float32(operand)


class _Halves(Trail):
    """Follows a value to what makes it, and is lost where that is not half."""

    def __init__(self, context: Context) -> None:
        super().__init__(context.facts)
        self._precisions = context.precisions
        self._found = False

    def make(self, value: cst.BaseExpression) -> bool:
        """True where a value is made of half tensors alone."""
        self._found = False
        try:
            self.walk(value)
        except Lost:
            return False
        return self._found

    def is_source(self, node: cst.BaseExpression) -> bool:
        found = self._precisions.of(node)
        if found in (Precision.SINGLE, Precision.OTHER) or is_power(node):
            raise Lost
        self._found = self._found or found is Precision.HALF
        return found is Precision.HALF

    def _of_torch(self, node: cst.Call, frames: Frames) -> bool:
        operand = tensor_operand(self.facts, node)
        if called_name(node) not in names(passes_on) or operand is None:
            return super()._of_torch(node, frames)
        self._go(operand, (), frames)
        return True


def _means(context: Context, loss: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """X of the `X.mean()` that a loss is, or is a sum or a multiple of. A value of a name is looked at once, however
    many of them are made of each other: `if option: loss = loss + penalty`.
    """
    for node in each_once([loss], partial(_parts, context)):
        averaged = _averaged(context, node)
        if averaged is not None and not _is_mean(averaged):
            yield averaged


def _averaged(context: Context, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """X of `X.mean()`, of torch's."""
    if not _is_mean(node) or context.facts.objects.called_function(node) is not None:
        return None
    return tensor_operand(context.facts, node)


def _parts(context: Context, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a value is the sum or a multiple of, the mean of a mean, or another name for."""
    averaged = _averaged(context, node)
    if averaged is not None:
        return [averaged] if _is_mean(averaged) else []
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right]
    if isinstance(node, cst.UnaryOperation):
        return [node.expression]
    if isinstance(node, (cst.Name, cst.Attribute)):
        return _values(context, node)
    if not isinstance(node, cst.Call):
        return []
    if called_name(node) in _SHAPES and isinstance(node.func, cst.Attribute):
        return [node.func.value]
    function = context.facts.objects.called_function(node)
    return context.facts.objects.returned_by(function) if function is not None else []


def _is_mean(node: cst.BaseExpression) -> TypeGuard[cst.Call]:
    return isinstance(node, cst.Call) and called_name(node) == "mean"


def _values(context: Context, node: cst.Name | cst.Attribute) -> list[cst.BaseExpression]:
    """What a name was given before, if that is certain, else by any assignment, or what was added to it; of a tuple
    that a function returns its part.
    """
    before = context.precisions.value_before(node) if isinstance(node, cst.Name) else None
    if before is not None:
        return [before]
    variable = context.facts.names.variable_at(node) if isinstance(node, cst.Name) else None
    bindings = variable.bindings if variable is not None else []
    added = [one.value for one in bindings if one.kind == "augment" and one.value is not None]  # loss += ...
    return [*context.facts.objects.values_of(node), *added, *context.facts.objects.parts_returned(node)]
