"""Tensors that are certainly in float32, where a cast to half by hand was the only one: without it they are what they
are (rule G1).

    batches = [(torch.randn(16, 8), torch.randint(0, 2, (16,))) for _ in range(10)]
    for rows, labels in batches:
        model(rows.cuda().half())        of `rows`, not of `labels`
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, argument_value, called_name
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.facts.variables import Binding, Variable
from amp_migrate.plan.regions.trail import Frames, Keys, Lost, Trail

_MAKE_FLOATS = frozenset("torch.rand torch.randn torch.zeros torch.ones".split())
_MOVES = frozenset("cuda cpu pin_memory contiguous".split())


def is_floating(facts: Facts, value: cst.BaseExpression) -> bool:
    """True where nothing but new tensors of float32, moved at most, makes a value."""
    try:
        _NewFloats(facts).walk(value)
    except Lost:
        return False
    return True


class _NewFloats(Trail):
    """A trail that no operation is on: many make integers of float32."""

    def is_source(self, node: cst.BaseExpression) -> bool:
        return (
            isinstance(node, cst.Call)
            and self.facts.names.dotted(node.func) in _MAKE_FLOATS
            and argument_value(node, "dtype") is None
            and not any(arg.star == "**" for arg in node.args)
        )

    def _follow(self, node: cst.BaseExpression, keys: Keys, frames: Frames) -> None:
        is_number = literal_value(node) is not UNKNOWN and not isinstance(node, (cst.Tuple, cst.List))
        if is_number or isinstance(node, (cst.Comparison, cst.BinaryOperation, cst.UnaryOperation)):
            raise Lost
        super()._follow(node, keys, frames)

    def _parameter(self, variable: Variable, binding: Binding, keys: Keys, frames: Frames) -> None:
        function = variable.scope.owner
        if isinstance(function, Function):
            if self.facts.is_used_outside(function) or self.facts.calls.value_uses(function):
                raise Lost  # somebody else may give it anything
        super()._parameter(variable, binding, keys, frames)

    def _of_torch(self, node: cst.Call, frames: Frames) -> bool:
        if called_name(node) not in _MOVES or not isinstance(node.func, cst.Attribute):
            return False
        self._go(node.func.value, (), frames)
        return True
