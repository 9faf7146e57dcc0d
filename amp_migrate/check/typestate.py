"""The life of an optimizer's gradients, along every path: none, plain, scaled, stale, unscaled, stepped.

    backward   none, plain, stale, updated -> scaled      unscale_   scaled -> unscaled
    step       -> stepped                                 update     stepped -> updated, scaled -> stale
    a backward of a loss that is not scaled  none -> plain         zero_grad  plain, updated -> none

GradScaler raises for some of the other moves ([T2.13:torch/amp/grad_scaler.py]) and silently computes nonsense
for the rest: a clip of scaled gradients, a backward between unscale_ and step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from amp_migrate.check.clips import clipped
from amp_migrate.check.regions import autocast_items
from amp_migrate.check.scalers import Event, Scalers
from amp_migrate.check.violation import Kind, Violation, violation
from amp_migrate.check.world import World
from amp_migrate.facts import Facts
from amp_migrate.facts.paths import Graph, Point
from amp_migrate.facts.tree import Function, Statement

State = tuple[str, ...]
_MOST_STATES = 200_000
_MOVES = {
    "backward": {"none": "scaled", "plain": "mixed", "stale": "scaled", "updated": "scaled"},
    "plain backward": {"none": "plain", "updated": "plain", "scaled": "mixed"},
    "zero_grad": {"plain": "none", "mixed": "none", "updated": "none"},
    "update": {"stepped": "updated", "scaled": "stale", "unscaled": "none", "unknown": "none"},
    "update to a value": {"stepped": "updated", "unscaled": "none", "unknown": "none"},
}
# Where some optimizers are not the scaler's, a loss that is not scaled may be theirs.
_APART = {"backward": {"plain": "scaled"}, "plain backward": {"scaled": "scaled"}}
# A function with all of them is a training step, and whoever calls it calls it again and again.
_PROTOCOL = frozenset(("backward", "step", "update"))


def check_typestate(facts: Facts, scalers: Scalers, *, whole: bool) -> Iterator[Violation]:
    """Follow every training step of the unit, in the world where mixed precision is on.

    Where the files are not `whole`, what happens before and after a part of a training step is not known.
    """
    if not scalers.optimizers:
        if whole:
            yield from _never_stepped(facts, scalers)
        return
    seen: set[tuple[str, str, int]] = set()
    world = World(facts, scalers, whole=whole)
    if world.is_empty:
        return
    for root in _roots(facts, scalers):
        for one in _Walk(facts, scalers, world, root, whole=whole).violations():
            if (one.kind, one.path, one.line) not in seen:
                seen.add((one.kind, one.path, one.line))
                yield one


def _is_dead(statement: Statement) -> bool:
    """True below a statement that leaves the block, as a script that only raises does."""
    return any(earlier.leaves for outer in statement.path() for earlier in outer.block.statements[: outer.index])


def _never_stepped(facts: Facts, scalers: Scalers) -> Iterator[Violation]:
    """Scaled losses where no optimizer is given to a scaler: whatever steps, steps on scaled gradients."""
    for statement, event in scalers.of_kind("backward"):
        if not _is_dead(statement):
            message = "no optimizer steps on these scaled gradients by scaler.step"
            yield violation(facts, "bare step", event.node, message)


def _roots(facts: Facts, scalers: Scalers) -> Iterator[Function]:
    """Functions that hold events themselves and are not run as a part of another one that does."""
    busy = scalers.functions
    called = {
        reached
        for function in busy
        for callee in facts.calls.callees(function)
        for reached in facts.calls.reachable(callee)
    }
    yield from (function for function in facts.tree.functions if function in busy and function not in called)


class _Problem(NamedTuple):
    """What is wrong at an event: a Violation without its place."""

    kind: Kind
    message: str
    case: str = ""


class _Walk:
    def __init__(self, facts: Facts, scalers: Scalers, world: World, root: Function, *, whole: bool) -> None:
        self.facts = facts
        self.scalers = scalers
        self.optimizers = scalers.optimizers
        self._clips: dict[Event, set[str]] = {}
        self.whole = whole
        busy = scalers.functions
        inlined = {one for one in facts.calls.reachable(root) if facts.calls.reaches(one, busy.__contains__)}
        kinds = {event.kind for at, events in scalers.events.items() if at.function in inlined for event in events}
        if not any(scalers.of_kind("step")) and "bare step" in kinds:
            kinds.add("step")
        self.is_all_scaled = whole and "own step" not in kinds
        self.is_complete = whole or kinds >= _PROTOCOL or (kinds >= _PROTOCOL - {"update"} and scalers.never_updated)
        self.graph = Graph(
            facts,
            root,
            inlined.__contains__,
            world.decide,
            called_again=self.is_complete and not self._starts_anew(root),
            matters=partial(self._matters, inlined=inlined),
            follows_constants=True,
        )

    def _starts_anew(self, root: Function) -> bool:
        """True where whoever calls it creates a scaler for each call."""
        makers = {statement.function for statement in self.scalers.created_at}
        sites = self.facts.calls.callers(root)
        in_loops = (any(outer.is_loop for outer in site.statement.path()[:-1]) for site in sites)
        return bool(sites) and all(site.caller in makers for site in sites) and not any(in_loops)

    def violations(self) -> Iterator[Violation]:
        first = "none" if self.is_complete else "unknown"
        fresh: State = tuple("none" for _ in self.optimizers)
        stack = [(self.graph.start, self.graph.no_conditions, tuple(first for _ in self.optimizers))]
        seen = set(stack)
        met: dict[Event, set[State]] = {}
        while stack and len(seen) < _MOST_STATES:
            point, conditions, state = stack.pop()
            if point.statement in self.scalers.created_at:
                state = fresh  # a new scaler serves a new run
            elif point.statement in self.scalers.built_at:
                state = self._moved(state, self.scalers.built_at[point.statement], "none")
            for event in self.scalers.events.get(point.statement, []) if point.statement is not None else ():
                met.setdefault(event, set()).add(state)
                problem = self._problem(event, state, point)
                if problem is not None:
                    yield violation(self.facts, problem.kind, event.node, problem.message, problem.case)
                if problem is None or problem.kind == "backward under autocast":  # which scales all the same
                    state = self._after(event, state)
                else:
                    state = self._moved(state, self.scalers.concerned(event), "unknown")
            for target, known in self.graph.follow(point, conditions):
                following = (target, known, state)
                if following not in seen:
                    seen.add(following)
                    stack.append(following)
        yield from self._steps_again(met)
        yield from self._steps_alone(met)

    def _steps_again(self, met: Mapping[Event, set[State]]) -> Iterator[Violation]:
        """Second steps on the same gradients. Only where another step of the optimizer follows a backward are its
        backwards in sight.
        """
        stepping = {
            event: {state[self.optimizers.index(event.optimizer)] for state in states}
            for event, states in met.items()
            if event.kind == "step" and event.optimizer is not None and not event.each
        }
        in_sight = {event.optimizer for event, states in stepping.items() if states & {"scaled", "unscaled"}}
        for event, states in stepping.items():
            if event.optimizer in in_sight and "updated" in states and states <= {"none", "updated"}:
                message = (
                    f"{event.optimizer} steps once more on the same gradients, and scaler.step unscales them again"
                )
                yield violation(self.facts, "step twice", event.node, message, "updated")

    def _steps_alone(self, met: Mapping[Event, set[State]]) -> Iterator[Violation]:
        """Steps of optimizers that no scaler knows, where all losses are scaled: theirs are as well."""
        if any(event.kind in ("plain backward", "unknown backward") for event in met):
            return
        for event, states in met.items():
            if event.kind == "own step" and any(set(state) - {"none", "unknown"} for state in states):
                name = self.facts.text(event.node.func)
                yield violation(
                    self.facts, "bare step", event.node, f"{name}() on scaled gradients, without the scaler"
                )

    def _matters(self, statement: Statement, inlined: set[Function]) -> bool:
        """True for an `if` that decides whether something happens to gradients, or where control goes on."""
        return any(
            inner in self.scalers.events
            or inner.leaves
            or any(site.callee in inlined for site in self.facts.calls.in_statement(inner))
            for inner in statement.descendants()
        )

    # -- the typestate ----------------------------------------------------------------------------------

    def _problem(self, event: Event, state: State, point: Point) -> _Problem | None:
        if event.kind == "backward":
            return self._problem_of_backward(event, state, point)
        if event.kind == "clip":
            clipped = [one for key, one in self._of(state) if key in self._clipped(event)]
            if set(clipped) & {"scaled", "stale", "mixed"} and not {"unscaled", "stepped", "unknown"} & set(clipped):
                text = self.facts.text(event.node.func)
                return _Problem("clip of scaled gradients", f"{text} clips gradients that are still scaled")
            return None
        if event.kind == "update":
            concerned = {one for key, one in self._of(state) if key in self.scalers.concerned(event)}
            if (
                not event.has_value
                and concerned <= {"none", "plain", "scaled", "stale", "mixed", "updated"}
                and not self._steps_in_turn(event)
            ):
                return _Problem("update without step", "update() with nothing stepped or unscaled")
            return None
        if event.optimizer is None or event.kind == "unseen" or event.each:
            return None
        return self._problem_of_optimizer(event, event.optimizer, state[self.optimizers.index(event.optimizer)])

    def _problem_of_backward(self, event: Event, state: State, point: Point) -> _Problem | None:
        if self._under_autocast(point):
            return _Problem("backward under autocast", "this backward runs inside an autocast region")
        if "unscaled" in state and len(self.optimizers) == 1:
            return _Problem("backward after unscale_", "this backward adds scaled gradients to unscaled ones")
        if "stepped" in state and len(self.optimizers) == 1:
            return _Problem("backward without update", "no update() since the last step")
        return None

    def _problem_of_optimizer(self, event: Event, name: str, mine: str) -> _Problem | None:
        """What is wrong with an unscale_ or a step of one optimizer."""
        if event.kind in ("unscale", "step"):
            if mine == "mixed" or (mine == "plain" and (self.whole or len(self.optimizers) == 1)):
                return _plain(name)
            if mine == "stale":
                return _Problem("update between steps", f"update() after {name} got its gradients, and before it steps")
        if event.kind == "unscale":
            if mine == "unscaled":
                return _Problem("unscale_ twice", f"the gradients of {name} are unscaled already")
            if mine == "stepped":
                return _Problem("unscale_ after step", f"{name} has stepped already")
        if event.kind == "step" and mine == "stepped":
            return _Problem("step twice", f"{name} has stepped since the last update()")
        if event.kind == "bare step" and mine in ("scaled", "stale", "mixed"):
            return _Problem("bare step", f"{name} steps without the scaler, on scaled gradients")
        if event.kind == "bare step" and mine == "unscaled":
            return _Problem("bare step", f"{name} steps without the scaler, on unscaled gradients", "unscaled")
        if event.kind == "bare step" and mine in ("stepped", "updated"):
            return _Problem("bare step", f"{name} steps again, without the scaler", "again")
        return None

    def _clipped(self, event: Event) -> set[str]:
        """The optimizers whose gradients a clip clips; all of them where it does not say."""
        if event not in self._clips:
            self._clips[event] = clipped(self.facts, self.scalers, event.node) or set(self.optimizers)
        return self._clips[event]

    def _after(self, event: Event, state: State) -> State:
        concerned = self.scalers.concerned(event)
        if event.kind in _MOVES:
            kind = "update to a value" if event.has_value else event.kind
            following = _MOVES[kind] if self.is_all_scaled else {**_MOVES[kind], **_APART.get(kind, {})}
            return tuple(following.get(one, one) if key in concerned else one for key, one in self._of(state))
        moves = {"unscale": "unscaled", "step": "stepped", "bare step": "none", "unseen": "unknown"}
        return self._moved(state, concerned, moves[event.kind]) if event.kind in moves else state

    def _moved(self, state: State, keys: set[str], target: str, sources: tuple[str, ...] | None = None) -> State:
        """The state after some optimizers, as far as they are in one of the `sources`, have come to `target`."""
        return tuple(
            target if key in keys and (sources is None or one in sources) else one for key, one in self._of(state)
        )

    def _of(self, state: State) -> Iterator[tuple[str, str]]:
        return zip(self.optimizers, state, strict=True)

    def _steps_in_turn(self, event: Event) -> bool:
        """True where a loop steps several optimizers, and it is not in sight which of them by the scaler."""
        concerned = self.scalers.concerned(event)
        return not self.whole and any(
            one.each and one.optimizer in concerned for _, one in self.scalers.of_kind("step", "unscale")
        )

    def _under_autocast(self, point: Point) -> bool:
        return any(any(autocast_items(self.facts, outer)) for outer in point.trail()[:-1])


def _plain(optimizer: str) -> _Problem:
    return _Problem("plain backward", f"{optimizer} has gradients of a loss that the scaler did not scale")
