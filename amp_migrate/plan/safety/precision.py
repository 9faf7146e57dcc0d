"""In which precision an expression is under CUDA autocast, as far as the code tells: must and may, in one word."""

from __future__ import annotations

import enum

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.reaching import assignment
from amp_migrate.facts.targets import shown_at
from amp_migrate.facts.tree import Function
from amp_migrate.facts.variables import Binding
from amp_migrate.interp.place import Frames, Place
from amp_migrate.interp.steps import Steps
from amp_migrate.interp.values import Values
from amp_migrate.models import Dtype
from amp_migrate.plan.safety.repairs import Safety


class Precision(enum.Enum):
    """What a value is."""

    HALF = "a half tensor"
    SINGLE = "a float32 tensor"
    FLOATING = "a tensor, half or float32"
    OTHER = "a tensor of integers, booleans, doubles or complex numbers"
    NUMBER = "a number of Python"
    UNKNOWN = "anything"

    @property
    def is_tensor(self) -> bool:
        return self not in (Precision.NUMBER, Precision.UNKNOWN)

    @property
    def may_be_half(self) -> bool:
        """True for tensors that autocast may have made half."""
        return self in (Precision.HALF, Precision.FLOATING)


_PRECISIONS = (
    (frozenset((Dtype.HALF,)), Precision.HALF),
    (frozenset((Dtype.SINGLE,)), Precision.SINGLE),
    (frozenset((Dtype.HALF, Dtype.SINGLE)), Precision.FLOATING),
    (frozenset(Dtype) - {Dtype.HALF, Dtype.SINGLE, Dtype.NUMBER}, Precision.OTHER),
    (frozenset((Dtype.NUMBER,)), Precision.NUMBER),
)


def precision(dtypes: frozenset[Dtype]) -> Precision:
    """The narrowest answer that holds for all of them."""
    fitting = (answer for meant, answer in _PRECISIONS if dtypes <= meant)
    return next(fitting, Precision.UNKNOWN) if dtypes else Precision.UNKNOWN


class Precisions:
    """Answers for expressions of the unit, repaired as `safety` says so far."""

    def __init__(self, facts: Facts, safety: Safety) -> None:
        self.facts = facts
        self.steps = facts.analysis(Steps)
        self.values = Values(facts, self.steps, safety)

    def places(self, node: cst.BaseExpression) -> list[Place]:
        """An expression where it stands, with the calls that may lead there."""
        return [Place(node)]

    def of(self, node: cst.BaseExpression, frames: Frames = ()) -> Precision:
        """The precision of an expression where it stands, after certain calls if they are given."""
        value = self.values.at(Place(node, (), frames))
        return Precision.UNKNOWN if value.is_container else precision(value.dtypes)

    def value_before(self, name: cst.Name) -> cst.BaseExpression | None:
        """The expression that certainly gave a local variable its value, as a whole."""
        last = self._last_binding(name)
        return shown_at(last.value, last.selector) if last is not None else None

    def behind(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The same for a name; any other expression is what it is."""
        return self.value_before(node) if isinstance(node, cst.Name) else node

    def unpacked_before(self, name: cst.Name) -> tuple[list[Function], int] | None:
        """The functions of which one certainly gave a local variable its value among others, and its place among
        these: `scores, state = self.net(x, state)`.
        """
        last = self._last_binding(name)
        if last is None or not isinstance(last.value, cst.Call) or len(last.selector) != 1:
            return None
        functions = [frame.function for frame in self.steps.calls.entered(last.value)]
        return (functions, last.selector[0]) if functions else None

    def _last_binding(self, name: cst.Name) -> Binding | None:
        """The one assignment that gives a local variable its value where it is read; None where there are several."""
        variable = self.facts.names.variable_at(name)
        statement = self.facts.tree.statement_of(name)
        if variable is None or variable.scope.owner is not statement.function:
            return None
        return assignment(variable, statement)
