"""Gradients that are kept over `scaler.update()`, while those of other optimizers are stepped.

    with amp.scale_loss(loss, [fast, slow]) as scaled_loss:
        scaled_loss.backward()
    fast.step()                        in every round, so that there has to be an update in every round, too
    if (i + 1) % 4 == 0:
        slow.step()                    takes the sum of four rounds

Apex unscaled each round before it added it. Natively the sum has gradients of several scales, where an update changed
the scale in between, and the step divides all of it by the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amp_migrate.facts.paths import Point
from amp_migrate.plan.steps.events import Step
from amp_migrate.plan.steps.step_graph import StepGraph
from amp_migrate.plan.steps.updates import Update


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
