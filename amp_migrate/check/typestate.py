"""The life of an optimizer's gradients, along every path: none, plain, scaled, unscaled, stepped.

    backward   none, plain -> scaled         unscale_   scaled -> unscaled
    step       -> stepped                    update     -> none
    a backward of a loss that is not scaled  none -> plain

GradScaler raises for some of the other moves ([T2.13:torch/amp/grad_scaler.py]) and silently computes nonsense
for the rest: a clip of scaled gradients, a backward between unscale_ and step.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.check.scalers import Event, Scalers, autocast_items
from amp_migrate.check.violation import Violation
from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import Formula, conjunction
from amp_migrate.facts.paths import Graph, Point
from amp_migrate.facts.tree import Function, Statement

State = tuple[str, ...]
_MOST_STATES = 200_000


def check_typestate(facts: Facts) -> Iterator[Violation]:
    """Follow every training step of the unit, in the world where mixed precision is on."""
    scalers = Scalers(facts)
    if not scalers.creations or not scalers.optimizers:
        yield from _never_stepped(facts, scalers)
        return
    seen: set[tuple[str, int]] = set()
    for root in _roots(facts, scalers):
        for violation in _Walk(facts, scalers, root).violations():
            if (violation.kind, violation.line) not in seen:
                seen.add((violation.kind, violation.line))
                yield violation


def _is_dead(statement: Statement) -> bool:
    """True below a statement that leaves the block, as a script that only raises does."""
    leaves = (cst.Raise, cst.Return, cst.Continue, cst.Break)
    return any(
        isinstance(earlier.node, leaves)
        for outer in statement.path()
        for earlier in outer.block.statements[: outer.index]
    )


def _never_stepped(facts: Facts, scalers: Scalers) -> Iterator[Violation]:
    """Scaled losses where no optimizer is given to a scaler: whatever steps, steps on scaled gradients."""
    for statement, events in scalers.events.items():
        for event in events:
            if event.kind == "backward" and not _is_dead(statement):
                message = "no optimizer steps on these scaled gradients by scaler.step"
                yield Violation("bare step", facts.line(event.node), statement.function.name, message)


def _roots(facts: Facts, scalers: Scalers) -> Iterator[Function]:
    """Functions that hold events themselves and are not run as a part of another one that does."""
    busy = {statement.function for statement in scalers.events}
    called = {
        reached
        for function in busy
        for callee in facts.calls.callees(function)
        for reached in facts.calls.reachable(callee)
    }
    yield from (function for function in facts.tree.functions if function in busy and function not in called)


class _Walk:
    def __init__(self, facts: Facts, scalers: Scalers, root: Function) -> None:
        self.facts = facts
        self.scalers = scalers
        self.optimizers = scalers.optimizers
        self.on = self._on()
        busy = {statement.function for statement in scalers.events}
        self.graph = Graph(
            facts,
            root,
            lambda callee: facts.calls.reaches(callee, busy.__contains__),
            self._decide,
            called_again=True,
        )

    def violations(self) -> Iterator[Violation]:
        start: State = tuple("none" for _ in self.optimizers)
        stack = [(self.graph.start, self.graph.no_conditions, start)]
        seen = set(stack)
        while stack and len(seen) < _MOST_STATES:
            point, conditions, state = stack.pop()
            if point.statement in self.scalers.created_at:
                state = start  # a new scaler serves a new run
            elif point.statement in self.scalers.built_at:
                built = self.scalers.built_at[point.statement]
                state = tuple("none" if key in built else one for key, one in zip(self.optimizers, state, strict=True))
            for event in self.scalers.events.get(point.statement, []) if point.statement is not None else ():
                problem = self._problem(event, state, point)
                if problem is not None:
                    yield self._violation(event, point, problem)
                state = self._after(event, state)
            for target, known in self.graph.follow(point, conditions):
                following = (target, known, state)
                if following not in seen:
                    seen.add(following)
                    stack.append(following)

    # -- the typestate ----------------------------------------------------------------------------------

    def _problem(self, event: Event, state: State, point: Point) -> tuple[str, str] | None:
        if event.kind == "backward":
            if self._under_autocast(point):
                return "backward under autocast", "this backward runs inside an autocast region"
            if "unscaled" in state and len(self.optimizers) == 1:
                return "backward after unscale_", "this backward adds scaled gradients to unscaled ones"
            if "stepped" in state and len(self.optimizers) == 1:
                return "backward without update", "no update() since the last step"
            return None
        if event.kind == "clip":
            if "scaled" in state and "unscaled" not in state and "stepped" not in state:
                return "clip of scaled gradients", "gradients are clipped before they are unscaled"
            return None
        if event.kind == "update":
            if not event.has_value and all(one in ("none", "plain", "scaled") for one in state):
                return "update without step", "update() with nothing stepped or unscaled"
            return None
        if event.optimizer is None:
            return None
        mine = state[self.optimizers.index(event.optimizer)]
        name = event.optimizer
        if event.each:
            return None
        if event.kind in ("unscale", "step") and mine == "plain" and len(self.optimizers) == 1:
            return "plain backward", f"{name} has gradients of a loss that the scaler did not scale"
        if event.kind == "unscale":
            if mine == "unscaled":
                return "unscale_ twice", f"the gradients of {name} are unscaled already"
            if mine == "stepped":
                return "unscale_ after step", f"{name} has stepped already"
        if event.kind == "step" and mine == "stepped":
            return "step twice", f"{name} has stepped since the last update()"
        if event.kind == "bare step" and mine in ("scaled", "unscaled"):
            return "bare step", f"{name} steps without the scaler, on {mine} gradients"
        return None

    def _after(self, event: Event, state: State) -> State:
        if event.kind == "backward":
            return tuple("scaled" if one in ("none", "plain") else one for one in state)
        if event.kind == "plain backward":
            return tuple("plain" if one == "none" else one for one in state)
        if event.kind == "update":
            return tuple("none" if one in ("stepped", "unscaled") else one for one in state)
        moves = {"unscale": "unscaled", "step": "stepped", "bare step": "none"}
        if event.kind not in moves:
            return state
        index = self.optimizers.index(event.optimizer or "")
        return (*state[:index], moves[event.kind], *state[index + 1 :])

    def _under_autocast(self, point: Point) -> bool:
        return any(any(autocast_items(self.facts, outer)) for outer in point.trail()[:-1])

    def _violation(self, event: Event, point: Point, problem: tuple[str, str]) -> Violation:
        kind, message = problem
        statement: Statement | None = point.statement
        function = statement.function.name if statement is not None else "<module>"
        return Violation(kind, self.facts.line(event.node), function, message)  # type: ignore[arg-type]

    # -- the world where mixed precision is on ----------------------------------------------------------

    def _on(self) -> Formula:
        formulas = []
        for creation in self.scalers.creations:
            for arg in creation.args:
                if arg.keyword is not None and arg.keyword.value == "enabled":
                    formulas.append(self.facts.conditions.compile(arg.value))
        possible = [formula for formula in formulas if self.facts.conditions.constant(formula) is not False]
        return conjunction(possible)

    def _decide(self, test: cst.BaseExpression) -> bool | None:
        return True if self._asks_scaler(test) else self.facts.conditions.settled(test, self.on)

    def _asks_scaler(self, test: cst.BaseExpression) -> bool:
        return (
            isinstance(test, cst.Call) and isinstance(test.func, cst.Attribute) and test.func.attr.value == "is_enabled"
        )
