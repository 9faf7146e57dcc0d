"""Gradients that a step has used, and that the next backward adds to: they are cleared on some paths only.

    for epoch in range(epochs):
        optimizer.zero_grad()
        for inputs in loader:                  every step but the first of an epoch takes old gradients, too
            with amp.scale_loss(...)
            optimizer.step()

Apex unscaled new gradients before it added them. Natively they are added while they are scaled, and unscaled together
with old ones that are not, of which next to nothing is left.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.paths import Point
from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.findings import Refusal
from amp_migrate.interp.place import Place
from amp_migrate.interp.steps import Steps
from amp_migrate.plan.steps.never_cleared import check_never_cleared
from amp_migrate.plan.steps.step_graph import StepGraph, Test
from amp_migrate.rules.steps import GRADIENTS_IN_USE

_MAY_CLEAR = ("zero", "clear", "reset")


def check_stale_gradients(facts: Facts, graph: StepGraph) -> None:
    """Raises Refusal for a step whose gradients meet new ones, although something clears them elsewhere.

    Where gradients are accumulated, the conditions of the step and of the clear may mean the same.
    """
    for one in graph.rounds():
        _check(facts, one)


def _check(facts: Facts, graph: StepGraph) -> None:
    for members in graph.classes:
        backward, clears = graph.is_backward(members), graph.clears(members)
        backwards = [point for point in graph.live if backward(point)]
        if not any(map(clears, graph.live)):
            check_never_cleared(facts, graph, members)
            continue
        if graph.path_exists(backwards, backward, graph.ends(members)):
            continue
        is_step, may_clear = graph.is_step(members), _may_clear(facts, graph, members)
        stepped = {point for point in backwards if graph.path_exists([point], is_step, clears)}
        for step in graph.steps_of(members):
            if graph.path_exists(graph.points([step.statement]), stepped.__contains__, may_clear):
                text = facts.text(step.optimizer)
                message = f"the next backward may add to the gradients of {text}: they are cleared on some paths only"
                raise Refusal(GRADIENTS_IN_USE, step.call, message, case="kept")


def _may_clear(facts: Facts, graph: StepGraph, members: ObjectSet) -> Test:
    """Tests for what clears the gradients, is not known not to, or decides about it once for all: a flag, or the first
    round. What comes and goes with the rounds (`i % k`) decides about it each time.
    """
    clears = graph.clears(members)
    statements = [point.statement for point in graph.live if clears(point) and point.statement is not None]

    def may_clear(point: Point) -> bool:
        at = point.statement
        if at is None or clears(point):
            return at is not None
        if isinstance(at.node, cst.If) and any(one is not at and one.inside(at) for one in statements):
            return not _counts_rounds(at.node.test)
        return _is_unknown(facts, at, members)

    return may_clear


def _counts_rounds(test: cst.BaseExpression) -> bool:
    return any(isinstance(part, cst.Modulo) for part in walk(test))


def _is_unknown(facts: Facts, statement: Statement, members: ObjectSet) -> bool:
    """True for calls that sound like clearing, and for those of other files that are given the optimizer."""
    for call in facts.tree.calls(statement):
        if facts.objects.candidates(call) or _only_computes(facts, call):
            continue
        if any(word in called_name(call).lower() for word in _MAY_CLEAR):
            return True
        is_of_form = (facts.names.dotted(call.func) or "").startswith("apex.")
        if not is_of_form and any(facts.objects.objects(arg.value) & members for arg in call.args):
            return True
    return False


def _only_computes(facts: Facts, call: cst.Call) -> bool:
    """True for `torch.zeros(8)` and `x.new_zeros(8)`, which sound like clearing, and change nothing."""
    rows = facts.analysis(Steps).of(Place(call)).rows
    return bool(rows) and not any(row is None or row.in_place for row in rows)
