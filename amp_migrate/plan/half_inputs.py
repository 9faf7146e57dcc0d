"""Inputs that are cast to half by hand: they only fit a model that runs in mixed precision.

scores = model(images.half())                 refused where the forward would stay in float32
images = to_half(batch); model(images)        the same, however far the cast is
if x.dtype == torch.half: y = y.half()        not the same: there is half already
for images in loader: model(images)           the same, where what the loader calls returns `x.half()`
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.paths import Decide, is_dead
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.findings import Refusal
from amp_migrate.interp.dtype_asked import asks_for_half
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import Trace, trace
from amp_migrate.interp.step import Made
from amp_migrate.interp.steps import Steps
from amp_migrate.models import Dtype, Operation
from amp_migrate.models.queries import follows
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.region import Region, UnderAutocast
from amp_migrate.plan.safety.reach import Reach
from amp_migrate.rules.regions import HALF_INPUTS
from amp_migrate.vocabulary import SAYS_HALF


def check_half_inputs(facts: Facts, regions: list[Region], forwards: Forwards, decide: Decide) -> None:
    """Raise Refusal for a cast whose result a model gets outside of every region, or may get where the way from one to
    the other is out of sight.
    """
    if facts.says(SAYS_HALF):
        inputs = _Inputs(facts, regions, forwards)
        for cast, statement in inputs.halves:
            if inputs.gives_back(cast) or is_dead(statement, decide):
                continue
            if not inputs.runs_under_autocast([statement]):
                message = f"{facts.text(cast)} feeds a model whose forward would stay in float32"
                raise Refusal(HALF_INPUTS, cast, message)


class _Inputs:
    """What models are given."""

    def __init__(self, facts: Facts, regions: list[Region], forwards: Forwards) -> None:
        self.facts = facts
        self.regions = regions
        self.forwards = forwards
        self.steps = facts.analysis(Steps)

    @cached_property
    def runs_under_autocast(self) -> UnderAutocast:
        return UnderAutocast(self.regions, Reach(self.facts, self.forwards, self.regions).statements)

    @property
    def halves(self) -> Iterator[tuple[cst.BaseExpression, Statement]]:
        """Casts to half, each with a statement that runs a model on what comes of it."""
        for call, statement in self.facts.tree.every(cst.Call):
            for arg in call.args if self.forwards.roles.is_forward(call) else ():
                found = self._behind(arg.value)
                casts = [one.node for one in found.ends if _makes_half(one)]
                yield from ((one, statement) for one in [*casts, *(self._handed_out if found.open else ())])

    def gives_back(self, cast: cst.BaseExpression) -> bool:
        """True below `if x.dtype == torch.half:`, where there is half already."""
        path = self.facts.tree.statement_of(cast).path()
        outer = (one.block.owner for one in path if one.block.owner is not None and one.block.arm == "body")
        return any(isinstance(one.node, cst.If) and asks_for_half(self.facts, one.node.test) for one in outer)

    def _behind(self, value: cst.BaseExpression) -> Trace:
        return trace(self.steps, Place(value), _passes, _casts, of_dtype=True)

    @cached_property
    def _handed_out(self) -> list[cst.BaseExpression]:
        """Casts to half whose results go where no caller is known: to a loader that collates, to a loop."""
        facts = self.facts
        values: list[tuple[object, Function]] = []
        values += ((node.value, at.function) for node, at in facts.tree.every(cst.Yield))
        for function in facts.tree.functions:
            is_method = function.owner is not None and not function.is_of_network
            if facts.calls.value_uses(function) or (is_method and not facts.calls.callers(function)):
                values += ((value, function) for value in facts.objects.returned_by(function))
        run = [value for value, function in values if isinstance(value, cst.BaseExpression) and facts.may_run(function)]
        return [one.node for value in run for one in self._behind(value).ends if _makes_half(one)]


def _passes(row: Operation) -> bool:
    return follows(row) or row.by_argument


def _casts(made: Made) -> bool:
    """True for what has a dtype of its own; `x.to(device)` has that of x."""
    return made.cast is not None


def _makes_half(made: Made) -> bool:
    """Certainly."""
    row = made.operation
    return made.cast == frozenset((Dtype.HALF,)) or (row is not None and row.kind == "method" and row.result == "half")
