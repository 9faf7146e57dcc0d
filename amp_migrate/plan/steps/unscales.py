"""Where gradients are unscaled (rules D1, D2): before the first use that no micro-batch reaches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import writes
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.paths import Point
from amp_migrate.facts.points_to import WRAPPERS
from amp_migrate.facts.tree import Statement, called_name, names_in, walk
from amp_migrate.findings import Refusal
from amp_migrate.plan.steps.events import Events, GradientUse, Step
from amp_migrate.plan.steps.held import holder
from amp_migrate.plan.steps.norms import gives_norm
from amp_migrate.plan.steps.second_backwards import AddsGradients
from amp_migrate.plan.steps.step_graph import StepGraph, Test
from amp_migrate.rules.steps import GRADIENTS_IN_USE

LEAVING = (cst.Continue, cst.Break, cst.Return)


@dataclasses.dataclass(frozen=True)
class Unscale:
    """`scaler.unscale_(optimizer)` before a statement; with `loop`, once for each optimizer of that loop.

    `condition` is the test around the step of an optimizer that is there under a condition only. With a `path`, what
    is named holds the optimizer: `schedule`, `.optimizer`.
    """

    before: Statement
    optimizer: cst.BaseExpression
    loop: cst.For | None = None
    condition: cst.BaseExpression | None = None
    path: str = ""

    def text(self, facts: Facts) -> str:
        """What is unscaled."""
        return facts.text(self.optimizer) + self.path


class UnscalePlanner:
    """Collects the unscales below one root, and the uses that must stay on scaled gradients."""

    def __init__(self, facts: Facts, events: Events, graph: StepGraph) -> None:
        self.facts = facts
        self.events = events
        self.graph = graph
        self.unscales: list[Unscale] = []
        self.micro_uses: list[GradientUse] = []
        self.unstepped: dict[Unscale, tuple[ObjectSet, list[GradientUse]]] = {}

    def plan(self) -> None:
        """Raises Refusal where gradients are used in a way that no placement of unscale_ serves."""
        self._check_plain_backwards()
        self._check_kept_clips()
        for members in self.graph.classes:
            self._place_unscales(members)

    # -- plain backwards (A6) -------------------------------------------------------------------------

    def _check_plain_backwards(self) -> None:
        """A plain backward whose gradients meet scaled ones later in the same step cannot be kept."""
        others = self.events.other_steps
        for statement, uses in self.events.uses.items():
            if not any(use.kind == "backward" for use in uses):
                continue
            for members in self.graph.classes:
                ends = self.graph.ends(members)
                if self.graph.path_exists(
                    self.graph.points([statement]),
                    self.graph.is_backward(members),
                    lambda point, ends=ends: ends(point) or point.statement in others,  # type: ignore[misc]
                ):
                    raise AddsGradients(statement)

    def _check_kept_clips(self) -> None:
        """Apex clipped the gradients of one micro-batch, natively a clip sees the sum of them (rule D6)."""
        for statement, clip in self.events.kept_clips.items():
            for members in self.graph.classes:
                points = self.graph.points([statement])
                if self.graph.path_exists(points, self.graph.is_backward(members), self.graph.ends(members)):
                    message = "this clips scaled gradients of every micro-batch; run again with --repair-clip"
                    raise Refusal(GRADIENTS_IN_USE, clip, message, case="micro-batch")

    # -- unscale_ (D1, D2) ----------------------------------------------------------------------------

    def _place_unscales(self, members: ObjectSet) -> None:
        backward, ends = self.graph.is_backward(members), self.graph.ends(members)
        sources = [point for point in self.graph.live if backward(point)]
        uses = []
        for statement, found in self.events.uses.items():
            points = self.graph.points([statement])
            relevant = [use for use in found if use.objects is None or use.objects & members]
            if not points or not relevant:
                continue
            if not self.graph.path_exists(sources, points.__contains__, ends):
                continue  # nothing scaled is held here
            if all(use.kind == "backward" for use in relevant) and not self._is_taken(points, members):
                continue
            if self.graph.path_exists(points, backward, ends):
                self._note_micro_use(relevant[0])
            else:
                uses.append(relevant[0])
        for use in uses:
            if use in self.micro_uses:
                text = " ".join(self.facts.text(use.node).split())
                message = f"{text} may use gradients of an optimizer that steps later than another one"
                raise Refusal(GRADIENTS_IN_USE, use.node, message, self._models_elsewhere(use))
        for cluster in self._clusters(members, uses):
            is_stepped = all(self._is_stepped(use, members) for use in cluster)
            others = [] if is_stepped else self._steps_before(cluster, members, sources)
            unscale = self._place(members, cluster, [*others, *(use.statement for use in cluster)], sources)
            if unscale not in self.unscales:
                self.unscales.append(unscale)
            if not is_stepped:
                self.unstepped[unscale] = (members, cluster)

    def _steps_before(self, uses: list[GradientUse], members: ObjectSet, sources: list[Point]) -> list[Statement]:
        """The steps of other optimizers between a backward and the uses: after their update, it is too late."""
        used, ends = set(self.graph.points([use.statement for use in uses])), self.graph.ends(members)
        steps = {step.statement: self.graph.points([step.statement]) for step in self.graph.steps}
        reached = {
            at: points for at, points in steps.items() if self.graph.path_exists(sources, points.__contains__, ends)
        }
        return [at for at, points in reached.items() if self.graph.path_exists(points, used.__contains__, ends)]

    def _is_taken(self, points: list[Point], members: ObjectSet) -> bool:
        """True where a step or a use of gradients follows, before they are cleared."""
        step = self.graph.is_step(members)
        used = {at for at, uses in self.events.uses.items() if any(use.kind != "backward" for use in uses)}
        return self.graph.path_exists(
            points, lambda point: step(point) or point.statement in used, self.graph.clears(members)
        )

    def check_unstepped(self, updated: Iterable[Point]) -> None:
        """Gradients that no step takes any more are cleared, but `unscale_` is remembered until the next update:
        without one, the next step of the optimizer would take its gradients for unscaled. After an update, they are
        unscaled no more. (A GAN's critic has those of the generator's loss.)
        """
        passed = set(updated)
        for unscale, (members, (use, *_)) in self.unstepped.items():
            backward, ends = self.graph.is_backward(members), self.graph.ends(members)
            entries = self.graph.entries(unscale.before)
            following = [point for point in entries if point not in passed]
            made = filter(backward, self.graph.live)
            is_late = self.graph.passes(made, [(passed.__contains__, ends), (entries.__contains__, ends)])
            if not is_late and not self.graph.path_exists(following, backward, passed.__contains__):
                continue
            text = " ".join(self.facts.text(use.node).split())
            message = f"{text} uses gradients that no step takes: they are cleared before the next one"
            if any(self._is_stepped(use, others) for others in self.graph.classes if others is not members):
                message = f"{text} may use gradients of another optimizer, too, which are cleared before it steps"
            raise Refusal(GRADIENTS_IN_USE, use.node, message, self._models_elsewhere(use))

    def _models_elsewhere(self, use: GradientUse) -> tuple[str, ...]:
        """The classes of other files whose weights are used: they show what `model.arch_parameters()` has."""
        called = [part.func for part in walk(use.node) if isinstance(part, cst.Call)]
        receivers = [one.value for one in called if isinstance(one, cst.Attribute)]
        made = [one for receiver in receivers for one in self.facts.objects.calls_behind(receiver)]
        names = [name for one in made for name in self.facts.names.imported_as(one.func)]
        return tuple(name for name in dict.fromkeys(names) if self.facts.elsewhere.source_of(name) is not None)

    def _is_stepped(self, use: GradientUse, members: ObjectSet) -> bool:
        """True where a step of one of the optimizers follows, before their gradients are cleared."""
        points = self.graph.points([use.statement])
        return self.graph.path_exists(points, self.graph.is_step(members), self.graph.clears(members))

    def _note_micro_use(self, use: GradientUse) -> None:
        text = " ".join(self.facts.text(use.node).split())
        if use.kind != "clip" and (use.call is None or not gives_norm(self.facts, use.call)):
            message = f"{text} uses gradients on every micro-batch, and is not recognised as a norm of them"
            raise Refusal(GRADIENTS_IN_USE, use.node, message)
        if tests_that_decide(self.events, use):
            message = f"the value of {text} decides about the step, so an overflow would never be noticed"
            raise Refusal(GRADIENTS_IN_USE, use.node, message, case="decides")
        if use not in self.micro_uses:
            self.micro_uses.append(use)

    def _clusters(self, members: ObjectSet, uses: list[GradientUse]) -> list[list[GradientUse]]:
        """Uses before the same steps belong together, and those that follow one another."""
        step, statements = self.graph.is_step(members), {use.statement for use in uses}
        clusters: list[tuple[set[Statement | None], list[GradientUse]]] = []
        for use in uses:
            reached = {use.statement} | {
                point.statement
                for point in self.graph.reached(
                    self.graph.points([use.statement]),
                    lambda point: step(point) or point.statement in statements,
                    self.graph.is_backward(members),
                )
            }
            joined = [cluster for cluster in clusters if cluster[0] & reached]
            clusters = [cluster for cluster in clusters if cluster not in joined]
            for other in joined:
                reached |= other[0]
            clusters.append((reached, [*(one for other in joined for one in other[1]), use]))
        return [cluster for _, cluster in clusters]

    def _place(
        self, members: ObjectSet, uses: list[GradientUse], statements: list[Statement], sources: list[Point]
    ) -> Unscale:
        """The innermost statement that each of some statements is reached through, and no micro-batch passes."""
        ends, backward = self.graph.ends(members), self.graph.is_backward(members)
        targets = self.graph.points(statements)
        for candidate in self._candidates(statements):
            points = self.graph.entries(candidate)
            entered = set(points)
            if self._reached_around(entered, sources, targets, ends):
                continue
            if self.graph.path_exists(points, backward, ends):
                continue  # it runs on micro-batches
            per_loop = self._follows_loop(candidate, uses)
            if not per_loop and self.graph.path_exists(
                points, entered.__contains__, lambda point: ends(point) or backward(point)
            ):
                continue  # it would unscale twice
            return self._unscale_before(candidate, members, uses, per_loop)
        use = uses[0]
        text = self.facts.text(use.node)
        message = f"no place is found where the gradients that {text} uses can be unscaled once"
        raise Refusal(GRADIENTS_IN_USE, use.node, message)

    def _reached_around(self, entered: set[Point], sources: list[Point], targets: list[Point], ends: Test) -> bool:
        """True where some use can be reached without passing the place."""
        return self.graph.path_exists(
            sources,
            lambda point: point in targets and point not in entered,
            lambda point: ends(point) or point in entered,
        )

    def _candidates(self, statements: list[Statement]) -> Iterator[Statement]:
        """The statements that hold some statements, from the first of these outwards."""
        trails = [point.trail() for point in self.graph.points(statements)]
        shared: list[Statement] = []
        for level in zip(*trails, strict=False):
            if any(statement.block is not level[0].block for statement in level):
                break
            shared.append(min(level, key=lambda statement: statement.index))
            if any(statement is not level[0] for statement in level):
                break
        yield from reversed(shared)

    def _follows_loop(self, candidate: Statement, uses: list[GradientUse]) -> bool:
        """True where each round of a loop uses the gradients of an optimizer of its own."""
        for outer in candidate.path()[:-1]:
            if isinstance(outer.node, cst.For):
                own = names_in(outer.node.target)
                if any(use.access is not None and names_in(use.access.optimizer) & own for use in uses):
                    return True
        return False

    def _unscale_before(
        self, candidate: Statement, members: ObjectSet, uses: list[GradientUse], per_loop: bool
    ) -> Unscale:
        """The object that is unscaled must be the one that is stepped, under a name known at this place."""
        if per_loop:
            access = next(use.access for use in uses if use.access is not None)
            return Unscale(candidate, access.optimizer)
        for step in self._next_steps(candidate, members):
            named = self._named_at(candidate, step.optimizer) if step.statement.function is candidate.function else None
            if named is not None:
                return Unscale(candidate, *named, self._condition(step, candidate))
        given = [one for ones in self.events.backwards.values() for backward in ones for one in backward.optimizers]
        named_here = [
            one
            for one in given
            if not isinstance(one, cst.Call) and self.facts.tree.function_of(one) is candidate.function
        ]
        known = [one for one in named_here if self.graph.objects_of([one]) & members]
        for optimizer in (*known, *(use.access.optimizer for use in uses if use.access is not None)):
            named = self._named_at(candidate, optimizer)
            if named is not None:
                return Unscale(candidate, *named)
        local = self._local_name(candidate, members)
        if local is not None:
            return Unscale(candidate, local)
        held = holder(self.facts, self.graph.steps_of(members), candidate)
        if held is not None:
            return Unscale(candidate, held[0], path=held[1])
        message = "the optimizer is not known by name where its gradients are used"
        raise Refusal(GRADIENTS_IN_USE, candidate.node, message, case="unnamed")

    def _next_steps(self, candidate: Statement, members: ObjectSet) -> list[Step]:
        """The steps of an optimizer, those first that take the gradients of a place. Raises Refusal where these may be
        of several optimizers that come from one place: `for net in nets: optimizers.append(Adam(net.parameters()))`.
        """
        steps = self.graph.steps_of(members)
        points, is_backward = self.graph.entries(candidate), self.graph.is_backward(members)
        following = [
            step
            for step in steps
            if self.graph.path_exists(points, lambda point, at=step.statement: point.statement is at, is_backward)  # type: ignore[misc]
        ]
        meant = {self.facts.identity.key(step.optimizer) or self.facts.text(step.optimizer) for step in following}
        if len(meant) > 1 and self._may_be_several(members):
            texts = " and ".join(dict.fromkeys(f"{self.facts.text(step.optimizer)}.step()" for step in following))
            message = f"{texts} may step optimizers that are made in one place: which of them holds these is not known"
            raise Refusal(GRADIENTS_IN_USE, candidate.node, message, case="unnamed")
        return [*following, *(step for step in steps if step not in following)]

    def _may_be_several(self, members: ObjectSet) -> bool:
        """True where one expression of the script makes several of the optimizers, as far as is known."""
        return len(members) > 1 or any(map(self.facts.objects.is_made_repeatedly, members))

    def _named_at(
        self, candidate: Statement, optimizer: cst.BaseExpression
    ) -> tuple[cst.BaseExpression, cst.For | None] | None:
        """What a step calls its optimizer, with the loop that names it where a place is outside of that; where the
        place comes before a name, what this stands for: `self.optimizer` for `update` in `update = self.optimizer`.
        """
        while (loop := self._loop_of(optimizer, candidate)) is None:
            variable = self.facts.names.variable_at(optimizer)
            homes = [binding.statement for binding in variable.bindings] if variable is not None else [None]
            if variable is None or not all(home is not None and self._comes_later(home, candidate) for home in homes):
                break
            (first, *more) = variable.bindings
            if (
                more
                or first.kind != "assign"
                or first.selector
                or not isinstance(first.value, (cst.Name, cst.Attribute))
            ):
                return None
            optimizer = first.value
        return optimizer, loop

    def _comes_later(self, statement: Statement, candidate: Statement) -> bool:
        return statement.function is candidate.function and statement.order >= candidate.order

    def _local_name(self, candidate: Statement, members: ObjectSet) -> cst.Name | None:
        """`optimizer`, where another object steps it: `schedule = Schedule(optimizer)`. Not where something is wrapped
        around it, which steps in its place.
        """
        for variable in self.facts.names.scopes[candidate.function].variables.values():
            bound = next(iter(variable.bindings), None)
            home = bound.statement if bound is not None else None
            if bound is None or home is None or len(variable.bindings) != 1 or bound.kind != "assign":
                continue
            if self.facts.objects.variable_objects(variable) != members:
                continue
            uses = [self.facts.tree.parents.get(load) for load in variable.loads]
            calls = [self.facts.tree.parents.get(use) for use in uses if isinstance(use, cst.Arg)]
            is_wrapped = any(isinstance(call, cst.Call) and called_name(call) in WRAPPERS for call in calls)
            comes_before = home.order < candidate.order and any(one.block is home.block for one in candidate.path())
            if variable.loads and comes_before and not is_wrapped:
                return variable.loads[0]
        return None

    def _condition(self, step: Step, candidate: Statement) -> cst.BaseExpression | None:
        """The test around a step whose optimizer is bound under conditions, where `candidate` is outside (rule D7)."""
        variable = self.facts.names.definition(step.optimizer)
        if variable is None or not all(self._is_conditional(binding.statement) for binding in variable.bindings):
            return None
        if any(self.facts.tree.statement_of(load).runs_before(candidate) for load in variable.loads):
            return None  # it is there in any case
        for outer in reversed(step.statement.path()[:-1]):
            if isinstance(outer.node, cst.If) and not candidate.inside(outer):
                if step.statement.arm_of(outer.node) != "body":
                    text = self.facts.text(step.optimizer)
                    message = f"{text} is there under a condition that is not known before"
                    raise Refusal(GRADIENTS_IN_USE, step.call, message)
                return outer.node.test
        return None

    def _is_conditional(self, statement: Statement | None) -> bool:
        """True for a binding in an arm of an `if` whose other arm, if there is one, does not bind the same."""
        return statement is not None and any(isinstance(one.node, cst.If) for one in statement.path()[:-1])

    def _loop_of(self, optimizer: cst.BaseExpression, candidate: Statement) -> cst.For | None:
        """The `for optimizer in optimizers` that names an optimizer, if `candidate` is not in its body."""
        for outer in self.facts.tree.statement_of(optimizer).path()[:-1]:
            if isinstance(outer.node, cst.For) and names_in(outer.node.target) & names_in(optimizer):
                if candidate is outer or not candidate.inside(outer):
                    return outer.node
        return None


def tests_that_decide(events: Events, use: GradientUse) -> list[cst.BaseExpression]:
    """The test of `if isfinite(norm): optimizer.step()` after `norm = clip_grad_norm_(...)`, and of an `if` that leaves
    the round without a step.
    """
    made = {path[0] for path in writes(use.statement)}
    around = [outer for step in events.all_steps() for outer in step.statement.path()[:-1]]
    own = use.statement.function.descendants()
    around += [one for one in own if any(isinstance(inner.node, LEAVING) for inner in one.descendants())]
    tests = [one.node.test for one in dict.fromkeys(around) if isinstance(one.node, cst.If)]
    return [test for test in tests if names_in(test) & made]
