"""Where the scaler is updated (rules D3, D4): once after each group of steps, and before early exits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import permutations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.elements import are_different_elements
from amp_migrate.facts.paths import Point
from amp_migrate.facts.tree import Statement, names_in
from amp_migrate.findings import Refusal
from amp_migrate.plan.steps.configured import Configured
from amp_migrate.plan.steps.events import Step
from amp_migrate.plan.steps.left_out import can_be_left_out
from amp_migrate.plan.steps.step_graph import StepGraph
from amp_migrate.plan.steps.unscales import LEAVING, Unscale, UnscalePlanner
from amp_migrate.rules.steps import GRADIENTS_IN_USE, UPDATE_PLACE


@dataclasses.dataclass(frozen=True)
class Update:
    """`scaler.update()` after a statement, or before one that jumps out of the step; `anyway` even where that is a step
    which is left out.
    """

    at: Statement
    before: bool = False
    anyway: bool = False


def in_between(facts: Facts, step: Step) -> Refusal:
    """Why gradients of several rounds, with steps of another optimizer between these, prevent a migration."""
    message = f"{facts.text(step.optimizer)} adds up gradients of several rounds, and another optimizer steps in "
    message += "between: each update may change the scale of what is added"
    return Refusal(GRADIENTS_IN_USE, step.call, message, case="rounds")


class UpdatePlanner:
    """Collects the updates below one root, and the steps that they follow."""

    def __init__(self, graph: StepGraph, unscales: UnscalePlanner) -> None:
        self.graph = graph
        self.unscales = unscales.unscales
        self.unstepped = unscales.unstepped
        self.updates: list[Update] = []
        self.steps: list[Step] = []
        self.without_gradients: list[Step] = []
        self.unmade: list[Step] = []
        self.left_out: list[Step] = []
        self.configured: list[Step] = []
        self._configured = Configured(graph.facts, graph)

    def plan(self) -> None:
        """Raises Refusal where the place after a step is not passed by its paths alone."""
        for group in self._groups():
            own = [unscale for unscale in self.unscales if self._leads_to(unscale, group)]
            anchor = self._anchor([step.statement for step in group], [unscale.before for unscale in own])
            self._check_update(anchor, group, own)
            self._add_update(Update(anchor, anyway=len(group) > 1))
            self.steps += group
            lacking = [step for step in group if self._may_lack_gradients(step)]
            without = [step for step in lacking if self._may_lack_gradients(step, however=True)]
            unmade = [step for step in group if step not in without and self._may_take_no_part(step)]
            for step in (*without, *unmade):
                others = [one for one in group if one not in lacking and one not in unmade]
                leaves_out = can_be_left_out(self.graph, step, others, group, own, anchor)
                if leaves_out and not self._takes_plain(step):
                    self.left_out.append(step)
                else:
                    (self.unmade if step in unmade else self.without_gradients).append(step)
            self.configured += [step for step in lacking if step not in without]
            for unscale in own:
                self._place_early_updates(unscale, anchor)
        for unscale, (_, uses) in self.unstepped.items():
            if not any(self._leads_to(unscale, [step]) for step in self.steps):
                last = self._anchor([use.statement for use in uses], [unscale.before])
                jump = next((one for one in last.next_siblings() if isinstance(one.node, LEAVING)), None)
                self._add_update(Update(jump, before=True) if jump else Update(last))

    def _groups(self) -> list[list[Step]]:
        """Steps with no backward between them, or whose gradients are alive at each other's steps in one iteration."""
        steps = [step for step in self.graph.steps if self._has_gradients(step)]
        groups: list[list[Step]] = []
        for step in steps:
            joined = [
                group
                for group in groups
                if any(self._together(step, other) for other in group)
                and not any(self._steps_again(step, other) for other in group)
            ]
            groups = [group for group in groups if group not in joined]
            groups.append([*(one for group in joined for one in group), step])
        return groups

    def _has_gradients(self, step: Step) -> bool:
        """False for a step before the first backward (some scripts warm up apex or a scheduler with one), and for
        one whose gradients come from a plain backward alone.
        """
        sources = [point for point in self.graph.live if self.graph.is_backward(step.objects)(point)]
        points = set(self.graph.points([step.statement]))
        if self._takes_plain(step):
            return self.graph.path_exists(sources, points.__contains__, self.graph.ends(step.objects))
        return self.graph.path_exists(sources, points.__contains__, lambda point: False)

    def _takes_plain(self, step: Step) -> bool:
        """True for a step that takes gradients of a loss which is not scaled, on some path."""
        points = set(self.graph.points([step.statement]))
        return self.graph.path_exists(self.graph.plain_backwards(), points.__contains__, self.graph.ends(step.objects))

    def _together(self, one: Step, other: Step) -> bool:
        return any(self._follows(first, second) for first, second in ((one, other), (other, one)))

    def _steps_again(self, one: Step, other: Step) -> bool:
        """True where one optimizer steps twice after the same backward, as with a leftover of accumulation."""
        if not one.objects & other.objects:
            return False
        if are_different_elements(self.graph.facts.objects, one.optimizer, other.optimizer):
            return False
        return any(self._joined_by_path(first, second) for first, second in ((one, other), (other, one)))

    def _joined_by_path(self, first: Step, second: Step) -> bool:
        target = set(self.graph.points([second.statement]))
        points = self.graph.points([first.statement])
        return self.graph.path_exists(points, target.__contains__, self.graph.is_any_backward)

    def _follows(self, first: Step, second: Step) -> bool:
        if self._joined_by_path(first, second):
            return True
        if first.objects & second.objects:
            return False
        points = self.graph.points([first.statement])
        target = set(self.graph.points([second.statement]))
        members = second.objects
        ends, clears = self.graph.ends(members), self.graph.clears(members)
        sources = [point for point in self.graph.live if self.graph.is_backward(members)(point)]
        held = self.graph.path_exists(sources, lambda point: point in points, ends)
        around = [outer for outer in first.statement.path() if outer.is_loop and second.statement.inside(outer)]
        return held and self.graph.path_exists(
            points, target.__contains__, lambda point: clears(point) or point.statement in around[-1:]
        )

    def _leads_to(self, unscale: Unscale, group: list[Step]) -> bool:
        steps = {step.statement for step in group}
        return unscale.before in steps or self.graph.path_exists(
            self.graph.points([unscale.before]), lambda point: point.statement in steps, self.graph.is_any_backward
        )

    def _anchor(self, steps: list[Statement], unscales: list[Statement]) -> Statement:
        """The statement after which the group is over: in the innermost block that holds all of it."""
        trails = self._trails([*steps, *unscales])
        anchor: Statement | None = None
        for level in zip(*trails, strict=False):
            if any(statement.block is not level[0].block for statement in level):
                break
            anchor = max(level, key=lambda statement: statement.index)
            if any(statement is not level[0] for statement in level):
                break
        assert anchor is not None
        for outer in reversed(anchor.path()[:-1]):
            in_all = all(outer in trail for trail in trails)
            if in_all and outer.is_loop and not self.graph.holds_backward(outer):
                anchor = outer
        if isinstance(anchor.node, cst.Return):
            message = "the result of a step is returned, so nothing can follow it"
            raise Refusal(UPDATE_PLACE, anchor.node, message, case="returned")
        return anchor

    def _trails(self, statements: list[Statement]) -> list[list[Statement]]:
        """The ways to some statements through the calls: from the innermost function that leads to all of them, where
        what each of its calls steps is a group of its own, else from the root.
        """
        points = self.graph.points(statements)
        functions = {point: [site.statement.function for site in point.frames] for point in points}
        for point, through in functions.items():
            assert point.statement is not None
            through.append(point.statement.function)
        for function in reversed(functions[points[0]]):
            if all(function in through for through in functions.values()):
                depths = {point: through.index(function) for point, through in functions.items()}
                if self._are_apart(depths):
                    above = {
                        point: sum(len(site.statement.path()) for site in point.frames[:depth])
                        for point, depth in depths.items()
                    }
                    return [point.trail()[above[point] :] for point in points]
        return [point.trail() for point in points]

    def _are_apart(self, depths: dict[Point, int]) -> bool:
        """True where a backward comes between what one call of a function steps and what another one does. The calls
        are told apart by those above a point, as many as its depth.
        """
        calls: dict[tuple[object, ...], list[Point]] = {}
        for point, depth in depths.items():
            calls.setdefault(point.frames[:depth], []).append(point)
        return not any(
            self.graph.path_exists(points, others.__contains__, self.graph.is_any_backward)
            for points in calls.values()
            for others in [{one for other in calls.values() if other is not points for one in other}]
        )

    def _check_update(self, anchor: Statement, group: list[Step], unscales: list[Unscale]) -> None:
        """No path from a backward may reach the update with nothing stepped and nothing unscaled."""
        recorded = {step.statement for step in group} | {unscale.before for unscale in unscales}
        if anchor in recorded:
            return
        inside, leaving = self.graph.inside(anchor), self.graph.leaving(anchor)
        sources = [point for point in self.graph.live if self.graph.is_any_backward(point) and point not in inside]
        if self.graph.path_exists(sources, leaving.__contains__, lambda point: point.statement in recorded):
            for one, other in permutations(group, 2):
                if not (self._joined_by_path(one, other) or self._joined_by_path(other, one)):
                    raise in_between(self.graph.facts, one)  # a backward is between all steps of the two
            message = "on some path of this training step no optimizer is stepped before the update"
            raise Refusal(UPDATE_PLACE, anchor.node, message)

    def _may_lack_gradients(self, step: Step, *, however: bool = False) -> bool:
        """True where some path from the start to the step passes no backward of its optimizer; with `however`, even
        though the configuration switches some loss on.
        """
        points = set(self.graph.points([step.statement]))
        sources = [self.graph.start, *self._clears_before(step)]
        backward = self.graph.is_backward(step.objects)
        asks, skips = self._configured.asks_for_gradients, self._configured.skips_backward
        return self.graph.path_exists(
            sources, points.__contains__, lambda point: backward(point) or asks(point) or (however and skips(point))
        )

    def _may_take_no_part(self, step: Step) -> bool:
        """True where some path from the start, or from what clears gradients, to the step passes a backward of its
        optimizer, and nothing in which what the optimizer has takes part. What comes under a condition of its own is
        taken to know what it does.
        """
        backwards = [point for point in self.graph.live if self.graph.is_backward(step.objects)(point)]
        points = self.graph.points([step.statement])
        trails = [point.trail() for point in points]
        conditions = [{one for one in trail[:-1] if isinstance(one.node, cst.If)} for trail in trails]
        ways = [set(point.trail()) for point in backwards]
        if (
            len(step.objects) != 1
            or len(self.graph.classes) < 2
            or not all(any(map(one.issubset, ways)) for one in conditions)
        ):
            return False
        (optimizer,) = step.objects
        takes_part = self.graph.taking_part(optimizer, {one for trail in trails for one in trail})
        if takes_part is None:
            return False
        legs = [(one, takes_part) for one in (backwards.__contains__, points.__contains__)]
        cleared = (self.graph.clears(step.objects), takes_part)
        return self.graph.passes([self.graph.start], legs) or self.graph.passes(points, [cleared, *legs])

    def _clears_before(self, step: Step) -> list[Point]:
        """The zero_grads after which the step comes without a condition of its own: a leftover step under
        `if len(loader) % k != 0:` is taken to know what it does.
        """
        outer = step.statement.path()[:-1]
        conditions = [one for one in outer if isinstance(one.node, cst.If)]
        own_rounds = [
            one
            for one in outer
            if isinstance(one.node, cst.For) and names_in(one.node.target) & names_in(step.optimizer)
        ]
        clears = self.graph.clears(step.objects)
        found = []
        for point in self.graph.live:
            trail = point.trail()
            if (
                clears(point)
                and all(one in trail for one in conditions)
                and not any(one in trail for one in own_rounds)
            ):
                found.append(point)
        return found

    def _place_early_updates(self, unscale: Unscale, anchor: Statement) -> None:
        """A jump that leaves the step after unscale_ gets an update of its own."""
        if unscale.before is anchor and unscale.before in {step.statement for step in self.steps}:
            return  # the step comes at once
        inside = self.graph.inside(anchor)
        starts = self.graph.points([unscale.before])
        jumps: dict[Statement, list[Point]] = {}
        for statement in self._jumps(unscale):
            points = [point for point in self.graph.points([statement]) if self._leaves(point, inside)]
            within = [point for point in points if point in inside]
            avoid = self.graph.is_any_backward if within else inside.__contains__
            if not points or not self.graph.path_exists(starts, points.__contains__, avoid):
                continue
            if within or self.graph.path_exists(points, self._starts_over, inside.__contains__):
                jumps[statement] = points
        for statement, points in jumps.items():
            if self._is_reached(starts, points, [one for other in jumps.values() for one in other], inside):
                self._add_update(Update(statement, before=True))

    def _is_reached(self, starts: list[Point], points: list[Point], jumps: list[Point], inside: set[Point]) -> bool:
        """False for a jump of the next round, which another jump leads to: that one has updated."""
        others = {point for point in jumps if point not in points}
        avoid = self.graph.is_any_backward if inside.intersection(points) else inside.__contains__
        return self.graph.path_exists(starts, points.__contains__, lambda point: point in others or avoid(point))

    def _leaves(self, jump: Point, inside: set[Point]) -> bool:
        """True for a jump outside of the last statement of a step, or out of it."""
        return jump not in inside or any(edge.target not in inside for edge in jump.edges)

    def _add_update(self, update: Update) -> None:
        if update not in self.updates:
            self.updates.append(update)

    def _starts_over(self, point: Point) -> bool:
        return self.graph.is_any_backward(point) or point is self.graph.start

    def _jumps(self, unscale: Unscale) -> Iterator[Statement]:
        function = unscale.before.function
        for statement in function.body.statements:
            for inner in statement.descendants():
                if isinstance(inner.node, LEAVING):
                    yield inner
