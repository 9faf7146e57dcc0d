"""Logarithms of probabilities: in half a sigmoid is exactly 1 from logit 8.5 on, and its logarithm minus infinity.

    p = torch.sigmoid(z)                                          =>    p = torch.sigmoid(z.float())
    loss = -(t * torch.log(p) + (1 - t) * torch.log(1 - p))

As for torch's own binary cross entropy (rule E4), the sigmoid itself has to run in float32: `.float()` on its result
comes too late ([run]). softmax runs in float32 under autocast anyway.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts.tree import Function, called_name
from amp_migrate.models import names
from amp_migrate.models.queries import in_half
from amp_migrate.plan.regions.sigmoids import Sigmoids
from amp_migrate.plan.regions.trail import Frames, Keys, Lost, Trail
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.numbers import numbers
from amp_migrate.plan.safety.operands import is_of_module, tensor_operand
from amp_migrate.plan.safety.precision import Precision
from amp_migrate.plan.safety.products import factors

_LOGARITHMS = frozenset("log log2 log10 log1p".split())
_FEW = 4  # 2 * p * q / (p + q) is a probability still


def keep_probabilities(context: Context) -> None:
    """Float32 for the arguments of the sigmoids whose results a logarithm takes."""
    trail = _Saturating(context)
    for call, _ in context.reach.calls():
        if called_name(call) in _LOGARITHMS:
            operand = tensor_operand(context.facts, call)
            for argument in trail.behind(operand) if operand is not None else ():
                if context.precisions.of(argument) not in (Precision.SINGLE, Precision.OTHER):  # no double becomes less
                    context.safety.keep_float32(argument)


class _Saturating(Trail):
    """Finds the sigmoids that a value is computed from, as far as the trail leads."""

    def __init__(self, context: Context) -> None:
        super().__init__(context.facts)
        self._context = context
        self._sigmoids = Sigmoids(context.facts)
        self._found: list[cst.BaseExpression] = []

    def behind(self, value: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What these sigmoids take."""
        self._found = []
        with contextlib.suppress(Lost):  # too far: what is found counts
            self.walk(value)
        return self._found

    def is_source(self, node: cst.BaseExpression) -> bool:
        """True for a sigmoid, and for a softmax, which is float32."""
        argument = self._sigmoids.origin(node) if isinstance(node, cst.Call) else None
        if argument is not None and isinstance(node, cst.Call) and not self._sigmoids.is_softmax(node):
            self._found.append(argument)
        return argument is not None

    def _follow(self, node: cst.BaseExpression, keys: Keys, frames: Frames) -> None:
        """A trail that is lost at one place goes on at the others, and with what an operation of torch takes."""
        if self._is_scaled(node):
            return
        try:
            super()._follow(node, keys, frames)
        except Lost:
            for value in self._beyond(node):
                self._go(value, (), frames)

    def _is_scaled(self, node: cst.BaseExpression) -> bool:
        """True for `512 * sigmoid(z)`, a length or a brightness: that is no probability."""
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
            return False
        constants = [*numbers(self.facts, node.left), *numbers(self.facts, node.right)]
        return any(abs(one) > _FEW for one in constants)

    def _beyond(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        if isinstance(node, cst.Name):
            variable = self.facts.names.variable_at(node)
            if variable is not None and isinstance(variable.scope.owner, Function):
                yield from self._context.reach.given_to_forward(variable)
        elif isinstance(node, cst.Call) and self._is_operation(node):
            yield from (arg.value for arg in node.args)
            if isinstance(node.func, cst.Attribute) and not is_of_module(self.facts, node.func):
                yield node.func.value
        else:
            yield from factors(self.facts, node)

    def _is_operation(self, call: cst.Call) -> bool:
        """True for functions of a package and methods of tensors; no probability comes through a layer as it was."""
        if called_name(call) in names(in_half) or not isinstance(call.func, cst.Attribute):
            return False
        is_module = any(one.kind != "field" for one in self.facts.objects.objects(call.func))
        return is_of_module(self.facts, call.func) or not (is_module or self.facts.text(call.func.value) == "self")
