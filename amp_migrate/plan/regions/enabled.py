"""The condition that a region of autocast is enabled by, where it stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import conjunction
from amp_migrate.facts.paths import is_dead
from amp_migrate.facts.tree import by_function, names_in
from amp_migrate.findings import Refusal
from amp_migrate.plan.enabled_text import EnabledText, Unknown
from amp_migrate.plan.half_inputs import check_half_inputs
from amp_migrate.plan.model import Setup
from amp_migrate.plan.regions.evaluation import Evaluation, asks_anew
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.scaler.before_setup import reached_without_setup, runs_before_setup
from amp_migrate.plan.scaler.enabling import enabling_of, enclosing_guards
from amp_migrate.plan.training_plan import AutocastRegion, TrainingPlan
from amp_migrate.rules.regions import FORWARD_IN_FLOAT32
from amp_migrate.rules.scaler import UNKNOWN_SCALER


class Enabled:
    """Regions with their conditions; `decide` answers tests in the program where mixed precision is on."""

    def __init__(
        self, facts: Facts, plan: TrainingPlan, text: EnabledText, decide: Callable[[cst.BaseExpression], bool | None]
    ) -> None:
        self.facts = facts
        self.found = plan.found
        self.plan = plan
        self.text = text
        self.decide = decide

    def training(self, region: Region) -> AutocastRegion:
        """A region of the training under its condition. Raises Refusal where that is not known there."""
        plan = self.plan
        gone = {collapse.statement for collapse in plan.collapses}
        guards = [guard for guard in enclosing_guards(self.facts, region.first) if guard.statement not in gone]
        known = conjunction([guard.formula for guard in guards])
        if plan.enabling.parts and self.facts.conditions.implies(known, plan.enabling.formula):
            return AutocastRegion(region, None)
        scaler = plan.scaler_for(region.function)
        if scaler is not None and not scaler.binding.is_set_early:
            if runs_before_setup(self.facts, self.found, region.first, self.decide):
                scaler = None  # not created yet
        found = self.text.for_region(region, scaler)
        if isinstance(found, Unknown):
            message = "the condition for mixed precision is not known where the forward runs"
            raise Refusal(UNKNOWN_SCALER, region.first.node, message, case="condition")
        self._note_calls_without(region, found)
        return AutocastRegion(region, found)

    def _note_calls_without(self, region: Region, enabled: str | None) -> None:
        """A parameter is the condition, and calls that only evaluate leave it out: Apex had these in half, too."""
        names = names_in(cst.parse_expression(enabled)) if enabled is not None else set()
        for given in self.plan.enabling.given:
            name = given.parameter.name.value
            if given.parameter in region.function.parameters and name in names:
                message = (
                    f"forwards without gradients stay in float32 in {region.function.name}: calls leave out {name}"
                )
                self.plan.findings.append(self.facts.finding(region.first.node, FORWARD_IN_FLOAT32, message))

    def evaluate(self, forwards: Forwards, shared: list[Region]) -> None:
        """Forwards without gradients, where the condition is in scope; the others stay in float32. Some are `shared`
        with other trainings, and wrapped already.
        """
        plan, text, decide = self.plan, self.text, self.decide
        covered = [*shared, *(found.region for found in plan.regions)]
        evaluation = Evaluation(self.facts, self.found, forwards, covered)
        evaluation.find(inference=not self.found.backwards)
        # What never set mixed precision up was in float32, as it is now.
        elsewhere = self.facts.calls.of_other_programs({setup.statement.function for setup in self.found.setups})
        left = {one: why for one, why in evaluation.left.items() if one.function not in elsewhere}
        own = {found.region: self._own_setup(found.region, forwards) for found in evaluation.regions}
        firsts = [found.region.first for found in evaluation.regions if own[found.region] is None]
        never_set_up = reached_without_setup(self.facts, self.found, firsts, decide)
        for found in evaluation.regions:
            setup = own[found.region]
            if setup is None and is_dead(found.region.first, decide):
                continue
            if found.region.first in never_set_up:
                left[found.region.first] = "mixed precision may not be set up there"
                continue
            scaler = plan.scaler_for(found.region.function)
            early = scaler if scaler is not None and scaler.binding.is_set_early else None
            if setup is not None:
                enabled = self._by_own_setup(found.region, setup)
            else:
                enabled = text.for_region(found.region, early)
            asks = isinstance(enabled, str) and asks_anew(self.facts, found.region.function, enabled)
            if asks and self.facts.is_used_outside(found.region.function):
                left[found.region.first] = "other files call it with options of their own"
            elif isinstance(enabled, str) or enabled is None:
                plan.regions.append(AutocastRegion(found.region, enabled, evaluation=True))
                plan.safety.floats.extend(found.floats)
            else:
                left[found.region.first] = "the condition of mixed precision is not known there"
        check_half_inputs(self.facts, [*shared, *(one.region for one in plan.regions)], forwards, decide)
        if not plan.regions and not left:
            for setup in self.found.setups:
                message = "no forward of this model is in this file: wherever it runs, it is in float32 now"
                plan.findings.append(self.facts.finding(setup.call, FORWARD_IN_FLOAT32, message))
        for setup in self.found.setups:
            function = setup.statement.function
            run = {function, *self.facts.calls.reachable(function)}
            only_sets_up = run.isdisjoint(one.statement.function for one in self.found.backwards)
            if (
                not function.is_module
                and function.owner is None
                and only_sets_up
                and self.facts.is_used_outside(function)
            ):
                message = f"other files call {function.name}: forwards of theirs are in float32 now"
                plan.findings.append(self.facts.finding(setup.call, FORWARD_IN_FLOAT32, message))
        for function, statements in by_function(left).items():
            count = len(statements)
            what = "a forward without gradients stays" if count == 1 else f"{count} forwards without gradients stay"
            why = "; ".join(dict.fromkeys(left[statement] for statement in statements))
            message = f"{what} in float32 in {function.name}: {why}"
            plan.findings.append(self.facts.finding(statements[0].node, FORWARD_IN_FLOAT32, message))

    def _own_setup(self, region: Region, forwards: Forwards) -> Setup | None:
        """The setup for inference alone, beside those that train, of the models that a region runs."""
        setups = self.found.setups if any(setup.optimizers for setup in self.found.setups) else []
        key = self.facts.identity.key
        run = {key(node) for node in forwards.named_in(region.statements())}
        of_these = [one for one in setups if not run.isdisjoint(map(key, one.models))]
        is_own = len(of_these) == 1 and not of_these[0].optimizers and run <= set(map(key, of_these[0].models))
        return of_these[0] if is_own and None not in run else None

    def _by_own_setup(self, region: Region, setup: Setup) -> str | Unknown | None:
        """Under which condition it runs in mixed precision: a path around the setup has to be one where that is off."""
        try:
            enabling = enabling_of(self.facts, self.found, setup)
        except Refusal:
            return Unknown()
        decide = partial(self.facts.conditions.settled, world=enabling.formula)
        alone = dataclasses.replace(self.found, setups=[setup])
        if is_dead(region.first, decide) or reached_without_setup(self.facts, alone, [region.first], decide):
            return Unknown()
        return EnabledText(self.facts, self.text.visible, enabling).for_region(region, None)
