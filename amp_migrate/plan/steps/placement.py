"""Training steps: where gradients are unscaled, where the scaler is updated (rules C, D).

For each function that joins backwards with their optimizer steps, its control flow is laid out with the
functions it calls, in the world where mixed precision is on, and the questions of the rules are asked of
its paths:

    a use of gradients from which the next backward can be reached without a step or a zero_grad   D2
    the first statement that all uses before a step pass, but no micro-batch does                  D1
    one update after the last step of each group of backwards and steps                           D4
    one update before every jump that leaves a step after its gradients were unscaled             D3
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TypeVar

from amp_migrate.facts import Facts
from amp_migrate.facts.paths import Decide, Point
from amp_migrate.facts.tree import Statement
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Backward
from amp_migrate.plan.steps.events import Events, GradientUse, Step
from amp_migrate.plan.steps.second_backwards import AddsGradients
from amp_migrate.plan.steps.stale import check_stale_gradients
from amp_migrate.plan.steps.step_graph import StepGraph, step_roots
from amp_migrate.plan.steps.unscales import Unscale, UnscalePlanner
from amp_migrate.plan.steps.updates import Update, UpdatePlanner
from amp_migrate.rules.steps import STEP_NOT_JOINED

_T = TypeVar("_T")


@dataclasses.dataclass
class StepPlan:
    """What is written around the steps of one unit.

    `repeated` are the backwards that add to gradients of earlier ones of the same optimizer, `two_scales` the steps
    that take gradients from before an update together with those from after it, `left_out` those that are only taken
    where there is a gradient, `unmade` those that may follow a backward in which nothing of their optimizer takes part.
    """

    unscales: list[Unscale] = dataclasses.field(default_factory=list)
    updates: list[Update] = dataclasses.field(default_factory=list)
    micro_uses: list[GradientUse] = dataclasses.field(default_factory=list)
    steps: list[Step] = dataclasses.field(default_factory=list)
    without_gradients: list[Step] = dataclasses.field(default_factory=list)
    unmade: list[Step] = dataclasses.field(default_factory=list)
    left_out: list[Step] = dataclasses.field(default_factory=list)
    configured: list[Step] = dataclasses.field(default_factory=list)
    repeated: list[Backward] = dataclasses.field(default_factory=list)
    two_scales: list[Step] = dataclasses.field(default_factory=list)


def plan_steps(facts: Facts, events: Events, decide: Decide) -> StepPlan:
    """Place unscale_ and update for every training step of the module.

    Raises Refusal where a step is not joined with its backward in this file, or where gradients are used in
    a way that no placement of unscale_ serves.
    """
    plan = StepPlan()
    reached: list[Statement] = []
    for root in step_roots(facts, events):
        graph = StepGraph(facts, events, decide, root)
        check_stale_gradients(facts, graph)
        unscales = UnscalePlanner(facts, events, graph)
        unscales.plan()
        if events.apart and not graph.starts_clean(graph.plain_backwards()):
            raise AddsGradients(events.apart[0])
        updates = UpdatePlanner(graph, unscales)
        updates.plan()
        unscales.check_unstepped(point for update in updates.updates for point in _passed(graph, update))
        # What several roots reach is planned by each of them, and written once.
        _extend(plan.unscales, unscales.unscales)
        _extend(plan.micro_uses, unscales.micro_uses)
        _extend(plan.updates, updates.updates)
        _extend(plan.steps, updates.steps)
        _extend(plan.without_gradients, updates.without_gradients)
        _extend(plan.unmade, updates.unmade)
        _extend(plan.left_out, updates.left_out)
        _extend(plan.configured, updates.configured)
        _extend(plan.repeated, list(_repeated(graph, events)))
        _extend(plan.two_scales, list(steps_of_two_scales(graph, updates.updates)))
        _extend(reached, [backward for backward in events.backwards if graph.points([backward])])
    if reached and not plan.steps:
        message = "in mixed precision no step follows this backward"
        raise Refusal(STEP_NOT_JOINED, reached[0].node, message, case="no step")
    return plan


def _repeated(graph: StepGraph, events: Events) -> Iterator[Backward]:
    """The backwards that are reached from one of the same optimizer, with no step and no zero_grad between."""
    for members in graph.classes:
        is_backward = graph.is_backward(members)
        sources = [point for statement in events.backwards for point in graph.points([statement]) if is_backward(point)]
        for point in graph.reached(sources, is_backward, graph.ends(members)):
            if point.statement is not None:
                yield from events.backwards[point.statement]


def _extend(known: list[_T], found: list[_T]) -> None:
    known += [one for one in found if one not in known]


# Gradients that are kept over `scaler.update()`, while those of other optimizers are stepped.
#
#     with amp.scale_loss(loss, [fast, slow]) as scaled_loss:
#         scaled_loss.backward()
#     fast.step()                        in every round, so that there has to be an update in every round, too
#     if (i + 1) % 4 == 0:
#         slow.step()                    takes the sum of four rounds
#
# Apex unscaled each round before it added it. Natively the sum has gradients of several scales, where an update changed
# the scale in between, and the step divides all of it by the last one.


def steps_of_two_scales(graph: StepGraph, updates: Iterable[Update]) -> Iterator[Step]:
    """The steps that take what one backward made before an update together with what another made after it.

    Gradients that nothing in sight clears are taken to be cleared out of sight, in every round.
    """
    updated = {point for update in updates for point in _passed(graph, update)}
    for members in graph.classes:
        backward, clears, ends = graph.is_backward(members), graph.clears(members), graph.ends(members)
        if not any(map(clears, graph.live)):
            continue
        made = [point for point in graph.live if backward(point)]
        keeping = {point for point in updated if not ends(point)}
        for step in graph.steps_of(members):
            steps = set(graph.points([step.statement]))
            if graph.passes(made, [(keeping.__contains__, ends), (backward, ends), (steps.__contains__, clears)]):
                yield step


def _passed(graph: StepGraph, update: Update) -> Iterable[Point]:
    """The points from which the update is reached at once, or that stand for it."""
    return graph.points([update.at]) if update.before else graph.leaving(update.at)
