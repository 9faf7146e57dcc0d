"""One training step as a graph: its control flow laid out with the functions it calls, in the world where
mixed precision is on, and the tests that the rules ask of its points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.each_once import each_once
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.paths import Decide, Graph, Point
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.findings import Refusal
from amp_migrate.plan.steps.events import Events, Step
from amp_migrate.plan.steps.taking_part import TakingPart
from amp_migrate.rules.steps import STEP_NOT_JOINED

Test = Callable[[Point], bool]


class Unstepped(Refusal):
    """No step is known to follow a backward. It `may_stay` as it is where its gradients reach no step."""

    def __init__(self, statement: Statement) -> None:
        super().__init__(STEP_NOT_JOINED, statement.node, "the step that follows this backward is not known")
        self.may_stay = False


def starts_without_gradients(facts: Facts, events: Events, decide: Decide) -> bool:
    """True where every training step clears what gradients other code has left before it steps."""
    roots = list(_joining(facts, events))
    return bool(roots) and all(StepGraph(facts, events, decide, root).starts_clean() for root in roots)


def step_roots(facts: Facts, events: Events) -> list[Function]:
    """The functions that join backwards with steps. Raises Refusal for one without the other."""
    roots = list(_joining(facts, events))
    _check_covered(facts, events, roots)
    return roots


def _joining(facts: Facts, events: Events) -> Iterator[Function]:
    """Those that do it themselves or through the functions that they call, the innermost of them."""
    backwards = {statement.function for statement in events.backwards}
    steps = {statement.function for statement in events.steps}

    def joins(function: Function) -> bool:
        return facts.calls.reaches(function, backwards.__contains__) and facts.calls.reaches(
            function, steps.__contains__
        )

    for function in facts.tree.functions:
        if not joins(function):
            continue
        own = function in backwards or function in steps
        if own or not any(joins(callee) for callee in facts.calls.callees(function)):
            yield function


def _check_covered(facts: Facts, events: Events, roots: list[Function]) -> None:
    covered = {reached for root in roots for reached in facts.calls.reachable(root)}
    for statement in events.backwards:
        if statement.function not in covered:
            raise Unstepped(statement)
    plain = {statement.function for statement, uses in events.uses.items() if any(u.kind == "backward" for u in uses)}
    for statement in list(events.steps):
        if statement.function in plain and statement.function not in covered:
            del events.steps[statement]  # a training step that the source never scales stays as it is (rule A6)
        elif statement.function not in covered:
            raise Refusal(STEP_NOT_JOINED, statement.node, "the backward before this step is not known")


class StepGraph:
    """The paths of the steps below one root function."""

    def __init__(self, facts: Facts, events: Events, decide: Decide, root: Function) -> None:
        self.facts = facts
        self.events = events
        self.decide = decide
        self.root = root
        marked = (*events.backwards, *events.steps, *events.zero_grads, *events.apart)
        busy = {statement.function for statement in marked}
        self.called_again = not self._loops(root)
        self.graph = Graph(
            facts,
            root,
            lambda callee: facts.calls.reaches(callee, busy.__contains__),
            decide,
            called_again=self.called_again,
        )
        self.start = self.graph.start
        self.path_exists = self.graph.path_exists
        self.passes = self.graph.passes
        self.reached = self.graph.reached
        self.live = self._reachable_points()
        # Of a long file, a root sees the events that its own paths reach.
        self._backwards = {
            statement: frozenset[Object]().union(*(self.objects_of(backward.optimizers) for backward in backwards))
            for statement, backwards in events.backwards.items()
            if self.points([statement])
        }
        self.steps = [step for step in events.all_steps() if self.points([step.statement])]
        self._clears = [
            clear for clears in events.zero_grads.values() for clear in clears if self.points([clear.statement])
        ]
        self.classes = self._optimizer_classes()

    def taking_part(self, optimizer: Object, around: set[Statement]) -> Test | None:
        """Tests for what something of an optimizer may take part in; None where what it has is not known, or where it
        may take part in what the callers of this training step give to it.
        """
        laid_out = {one.statement.function for one in self.graph.points if one.statement is not None}
        others = frozenset(one for step in self.steps for one in step.objects)
        found = TakingPart(self.facts, optimizer, others, laid_out, around)
        if not found.is_known:
            return None
        for function in each_once([self.root], self._callers_of):
            if not function.is_module and (self.facts.calls.value_uses(function) or not self._callers_of(function)):
                return None
            if function is not self.root and any(map(found.takes_part, function.descendants())):
                return None
        return lambda point: point.statement is not None and found(point.statement)

    def _callers_of(self, function: Function) -> list[Function]:
        return [statement.function for _, statement in self.facts.objects.possible_callers(function)]

    def rounds(self) -> Iterator[StepGraph]:
        """The graphs in which its steps follow each other: its own, or those of callers that loop."""
        if not self.called_again:
            yield self
        elif not self.starts_clean():
            for function in filter(self._loops, each_once([self.root], self._around)):
                yield StepGraph(self.facts, self.events, self.decide, function)

    def _around(self, function: Function) -> list[Function]:
        """What calls a function that does not loop over batches itself."""
        return [] if self._loops(function) else [site.caller for site in self.facts.calls.callers(function)]

    def _loops(self, function: Function) -> bool:
        """True for functions that loop over batches themselves; others are called once for each."""
        return any(inner.is_loop and self.holds_backward(inner) for inner in function.descendants())

    def holds_backward(self, statement: Statement) -> bool:
        """True where a scaled backward runs in the statement, its blocks or the functions that it calls."""
        holders = {inner.function for inner in self.events.backwards}
        for inner in statement.descendants():
            if inner in self.events.backwards:
                return True
            if any(
                self.facts.calls.reaches(site.callee, holders.__contains__)
                for site in self.facts.calls.in_statement(inner)
            ):
                return True
        return False

    def _reachable_points(self) -> set[Point]:
        """The points that can run while mixed precision is on."""
        seen = {self.graph.start}
        stack = [self.graph.start]
        while stack:
            for edge in stack.pop().edges:
                if edge.target not in seen:
                    seen.add(edge.target)
                    stack.append(edge.target)
        return seen

    def points(self, statements: Iterable[Statement]) -> list[Point]:
        """Where the statements run."""
        return [point for statement in statements for point in self.graph.at(statement) if point in self.live]

    def entries(self, statement: Statement) -> list[Point]:
        """Where a statement is entered: a loop before its first round."""
        return [point for point in self.graph.entries(statement) if point in self.live]

    def inside(self, statement: Statement) -> set[Point]:
        """The points of a statement, of its blocks, and of the functions that it calls."""
        return {point for point in self.live if statement in point.trail()}

    def leaving(self, statement: Statement) -> set[Point]:
        """Those of them from which control goes on after the statement."""
        inside = self.inside(statement)
        return {point for point in inside if any(edge.target not in inside for edge in point.edges)}

    def _optimizer_classes(self) -> list[ObjectSet]:
        """Sets of optimizer objects that cannot be told apart."""
        sets = [step.objects for steps in self.events.steps.values() for step in steps if self.points([step.statement])]
        for statement, backwards in self.events.backwards.items():
            if self.points([statement]):
                sets += [self.objects_of(backward.optimizers) for backward in backwards]
        classes: list[frozenset[Object]] = []
        for members in sorted(sets, key=len):
            joined = [known for known in classes if known & members]
            if len(members) > 1 and joined and frozenset().union(*joined) >= members and len(joined) > 1:
                continue  # a list of optimizers that are known one by one
            classes = [known for known in classes if known not in joined]
            classes.append(frozenset(members).union(*joined))
        return classes

    def objects_of(self, nodes: list[cst.BaseExpression]) -> frozenset[Object]:
        """The optimizers that expressions name, alone or in a list."""
        return frozenset().union(*map(self.facts.objects.contents, nodes))

    def is_backward(self, members: ObjectSet) -> Test:
        """Tests for a scaled backward that makes gradients of one of the optimizers."""
        statements = {statement for statement, objects in self._backwards.items() if objects & members}
        return lambda point: point.statement in statements

    def is_any_backward(self, point: Point) -> bool:
        """True for every scaled backward."""
        return point.statement in self.events.backwards

    def plain_backwards(self) -> list[Point]:
        """The backwards whose loss is not scaled."""
        uses = self.events.uses.items()
        return self.points(statement for statement, found in uses if any(use.kind == "backward" for use in found))

    def starts_clean(self, others: Iterable[Point] = ()) -> bool:
        """True where each way from the start to a step, and from some other points, leads through what clears all
        gradients of its optimizer.
        """
        starts = [self.start, *others]
        for step in self.steps:
            clears = {one.statement for one in self._clears if one.of_optimizer and one.objects == step.objects}
            targets = self.points([step.statement])
            if self.path_exists(starts, targets.__contains__, lambda point, sure=clears: point.statement in sure):  # type: ignore[misc]
                return False
        return True

    def steps_of(self, members: ObjectSet) -> list[Step]:
        """The steps of one of the optimizers."""
        return [step for step in self.steps if step.objects & members]

    def is_step(self, members: ObjectSet) -> Test:
        """Tests for a step of one of the optimizers."""
        statements = {step.statement for step in self.steps_of(members)}
        return lambda point: point.statement in statements

    def clears(self, members: ObjectSet) -> Test:
        """Tests for a zero_grad that may clear gradients of one of the optimizers."""
        statements = {clear.statement for clear in self._clears if clear.objects is None or clear.objects & members}
        return lambda point: point.statement in statements

    def ends(self, members: ObjectSet) -> Test:
        """Tests for what ends the life of scaled gradients: a step or a zero_grad."""
        step, clear = self.is_step(members), self.clears(members)
        return lambda point: step(point) or clear(point)
