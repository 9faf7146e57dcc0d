"""Autocast regions around forward and loss (rules E1 to E3).

From the loss back to the calls that reach a model: the region is the shortest run of statements, in the
lowest block that holds them all, from the first model call to the last statement on the way to the loss.
Arithmetic on the loss at the end stays outside; a backward, a step, a `torch.autograd.grad` or a `yield` is
never inside, the region splits around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import writes
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Recognition, Setup
from amp_migrate.plan.regions.barriers import Barriers, is_autograd_grad, read_by
from amp_migrate.plan.regions.behind_loss import BehindLoss
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.penalties import Penalties
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.regions.runs import Runs
from amp_migrate.plan.steps.events import Events
from amp_migrate.rules.safety import GRADIENT_PENALTY


def find_regions(
    facts: Facts, found: Recognition, forwards: Forwards, events: Events
) -> tuple[list[Region], list[Statement]]:
    """The regions of all scaled losses, and the statements of those that get none, since they take gradients. Raises
    Refusal where a loss comes from outside of the file.
    """
    finder = _Finder(facts, found, forwards, events)
    return finder.find(), finder.left_in_float32


class _Finder:
    def __init__(self, facts: Facts, found: Recognition, forwards: Forwards, events: Events) -> None:
        self.facts = facts
        self.found = found
        self.forwards = forwards
        self.penalties = Penalties(facts, forwards)
        self.barriers = Barriers(facts, events)
        self.behind = BehindLoss(facts, found, forwards, self.barriers)
        self.runs = Runs(facts, found, forwards, self.barriers, self.behind.needed, self._penalised)
        self.left_in_float32: list[Statement] = []

    def find(self) -> list[Region]:
        for backward in self.found.backwards:
            self.behind.follow(backward)
            self.runs.hoist(backward)
        needed = self.behind.needed
        for function, statements in needed.items():
            statements -= self._penalised(function)
        regions = [region for function in needed for region in self.runs.of(function)]
        regions = [region for region in regions if not self._is_preparation(region)]
        self._check_penalties(regions)
        self._check_anything_is_left(regions)
        return regions

    def _check_anything_is_left(self, regions: list[Region]) -> None:
        """A scaler without any autocast would be for nothing, in the unit or for one of its backwards. Apex had scaled
        that one as well: beside others it goes on so, in float32, where all that it may be given is in sight.
        """
        inside = [inner for region in regions for one in region.statements() for inner in one.descendants()]
        covered = {one.function for one in inside if self.forwards.runs_model(one)}
        needed = self.behind.needed
        functions = [one.statement.function for one in self.found.backwards] if covered else [*needed]
        bare = [one for one in functions if not self.facts.calls.reaches(one, covered.__contains__)]
        barred = [one for function in bare for one in needed.get(function, ()) if self.barriers.blocks(one)]
        if covered and self.found.evaluates and not any(self._is_run_outside(one.function) for one in barred):
            self.left_in_float32, barred = [one for one in barred if self.forwards.runs_model(one)], []
        penalised = [] if covered else [one for function in bare for one in self._penalised(function)]
        for forwards, why, case in (
            (penalised, "is for a penalty as well", ""),
            (barred, "takes gradients as well", "inside"),
        ):
            if any(self.forwards.runs_model(one) or self.forwards.calls_an_object(one) for one in forwards):
                first = min(forwards, key=lambda one: one.order)
                message = f"{self.facts.text(first.node)} {why}, and nothing else is left for autocast"
                raise Refusal(GRADIENT_PENALTY, first.node, message, tuple(self.barriers.unread), case=case)

    def _is_run_outside(self, function: Function) -> bool:
        """True for what files outside of the unit may run, and give half values."""
        ways = (one for one in self.facts.tree.functions if one is function or self.facts.calls.leads_to(one, function))
        return any(self.facts.is_seen_outside(*self.facts.name_of(one)) for one in ways if not one.is_module)

    def _penalised(self, function: Function) -> frozenset[Statement]:
        """What stays in float32 for a penalty of its gradient; O1 had no such place."""
        return self.penalties.forwards_of(function) if not self.found.evaluates else frozenset()

    def _is_preparation(self, region: Region) -> bool:
        """True for what comes before the optimizer is built, or holds that: it makes the model that is trained.

        Where several trainings follow each other, the first ones come before the optimizers of the others.
        """
        later = [setup for setup in self.found.setups if setup.stays and self._is_built_after(setup, region)]
        optimizers = self._optimizers_of(node for setup in later for node in setup.optimizers)
        built = [place.order for setup in later for place in self._places_of(setup, region.function)]
        return bool(later) and not any(
            backward.statement.function is region.function
            and backward.statement.order > region.last.order
            and (backward.statement.order < min(built) or not self._optimizers_of(backward.optimizers) & optimizers)
            for backward in self.found.backwards
        )

    def _is_built_after(self, setup: Setup, region: Region) -> bool:
        return any(
            (region.covers(built) or region.last.order < built.order)
            and not any(outer.is_loop and built.inside(outer) for outer in region.first.path()[:-1])
            for built in self._places_of(setup, region.function)
        )

    def _optimizers_of(self, nodes: Iterable[cst.BaseExpression]) -> ObjectSet:
        return frozenset().union(*(self.facts.objects.objects(node) for node in nodes))

    def _places_of(self, setup: Setup, function: Function) -> Iterator[Statement]:
        """Where a function builds the optimizer, itself or by the function that it calls for that."""
        home = setup.statement.function
        if home is function:
            yield setup.statement
        yield from (site.statement for site in self.facts.calls.callers(home) if site.caller is function)

    def _check_penalties(self, regions: list[Region]) -> None:
        """The outputs of `autograd.grad(outputs, inputs, create_graph=True)` must not come from a region (rule H5), nor
        the inputs from a forward in one: their gradient would be in half, too.
        """
        for region in regions if not self.found.evaluates else ():
            inside = [inner for one in region.statements() for inner in one.descendants()]
            made = {path[0] for one in inside for path in writes(one)}
            outputs_of_models = {path[0] for one in inside if self.forwards.runs_model(one) for path in writes(one)}
            for inner in region.function.descendants():
                if inner.order <= region.first.order:
                    continue
                lost = self.penalties.inputs_at(inner) & outputs_of_models
                for call in self.facts.tree.calls(inner):
                    if is_autograd_grad(self.facts, call):
                        lost |= made & {path[0] for path in read_by(call, "outputs", 0)}
                if lost:
                    names = ", ".join(sorted(lost))
                    raise Refusal(GRADIENT_PENALTY, inner.node, f"{names} is made under autocast, for a loss as well")
