"""Gradients that nothing clears in any round: each step takes those of all steps before it as well.

    for batch in loader:
        criterion(model(batch), batch.y).backward()
        optimizer.step()

That trains, in its way. With a scaler the old gradients, which a step has unscaled, would be unscaled again with the
new ones, and next to nothing would be left of them.
"""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.paths import Point
from amp_migrate.facts.tree import called_name
from amp_migrate.findings import Refusal
from amp_migrate.plan.steps.step_graph import StepGraph
from amp_migrate.rules.steps import GRADIENTS_NOT_CLEARED

_MAY_CLEAR = re.compile(r"zero|clear|reset")
_CLEARS = re.compile(rb"zero_|\.grad\b|clear|reset")


def check_never_cleared(facts: Facts, graph: StepGraph, members: ObjectSet) -> None:
    """Raises Refusal for a step of a loop in which nothing clears. What is out of sight, and could, is trusted."""
    if _is_cleared_by_hand(facts) or not all(_is_made_in_sight(facts, one) for one in members):
        return
    backward = graph.is_backward(members)
    for step in graph.steps_of(members):
        if graph.path_exists(graph.points([step.statement]), backward, lambda point: _may_clear(facts, point)):
            text = facts.text(step.optimizer)
            message = f"nothing clears the gradients of {text} before the next backward"
            raise Refusal(GRADIENTS_NOT_CLEARED, step.call, message)


def _is_cleared_by_hand(facts: Facts) -> bool:
    """True where the unit speaks of gradients or of clearing them, wherever that is."""
    return any("zero_grad" in one.value or one.value == "grad" for one, _ in facts.tree.every(cst.Name))


def _is_made_in_sight(facts: Facts, optimizer: Object) -> bool:
    """True for an optimizer of a package, and for what a file makes that is there and says nothing of clearing."""
    origin = optimizer.source.origin
    return isinstance(origin, cst.Call) and not _clears_elsewhere(facts, origin)


def _may_clear(facts: Facts, point: Point) -> bool:
    calls = facts.tree.calls(point.statement) if point.statement is not None else ()
    return any(_is_out_of_sight(facts, call) for call in calls if not facts.objects.candidates(call))


def _is_out_of_sight(facts: Facts, call: cst.Call) -> bool:
    """True for a call that sounds like clearing, one of a base class that is not here, and of a file that clears."""
    function = call.func
    receiver = function.value if isinstance(function, cst.Attribute) else None
    of_itself = isinstance(receiver, cst.Name) and receiver.value == "self"
    makers = facts.objects.calls_behind(receiver) if receiver is not None else []
    sounds = _MAY_CLEAR.search(called_name(call).lower()) is not None
    return sounds or of_itself or any(_clears_elsewhere(facts, one) for one in (call, *makers))


def _clears_elsewhere(facts: Facts, call: cst.Call) -> bool:
    sources = (facts.elsewhere.source_of(name) for name in facts.names.imported_as(call.func))
    return any(_CLEARS.search(source) is not None for source in sources if source is not None)
