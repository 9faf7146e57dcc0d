"""From what a front end found to the plan of the unit."""

from __future__ import annotations

import dataclasses
from itertools import chain

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import Formula, conjunction
from amp_migrate.facts.paths import is_dead
from amp_migrate.facts.tree import walk
from amp_migrate.findings import Refusal
from amp_migrate.options import Options
from amp_migrate.plan.apex_bugs import now_as_written
from amp_migrate.plan.arms import Collapse, find_collapses
from amp_migrate.plan.checkpoints import format_test
from amp_migrate.plan.enabled_text import EnabledText
from amp_migrate.plan.exclusions import check_clips, check_processes, check_tests, check_threads, check_unit
from amp_migrate.plan.flags import availability_flags
from amp_migrate.plan.free_names import free_name
from amp_migrate.plan.identities import drop_identities
from amp_migrate.plan.model import Recognition
from amp_migrate.plan.notes import notes
from amp_migrate.plan.packs import drop_packs
from amp_migrate.plan.parameters import Parameters
from amp_migrate.plan.regions.cached_casts import keep_no_stale_casts
from amp_migrate.plan.regions.enabled import Enabled
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.regions.training import find_regions
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.safety.reached import Reached
from amp_migrate.plan.scaler.carried import Hung, find_hung
from amp_migrate.plan.scaler.enabling import Enabling, carrier_formulas, work_out_enabling
from amp_migrate.plan.scaler.scalers import Scalers
from amp_migrate.plan.scaler.visible import Visible
from amp_migrate.plan.shared_backwards import find_shared_backwards
from amp_migrate.plan.split import split_recognition
from amp_migrate.plan.steps.clipped_sets import check_clipped_sets
from amp_migrate.plan.steps.events import Events, collect_events
from amp_migrate.plan.steps.placement import StepPlan, plan_steps
from amp_migrate.plan.steps.second_backwards import AddsGradients, scale_second_backward
from amp_migrate.plan.steps.skips import find_skips
from amp_migrate.plan.steps.step_graph import Unstepped, starts_without_gradients
from amp_migrate.plan.steps.updates import in_between
from amp_migrate.plan.training_plan import Scaler, TrainingPlan
from amp_migrate.rules.apex import UNKNOWN_AMP_USE
from amp_migrate.rules.native import SCALER_NOT_SAVED
from amp_migrate.rules.regions import FORWARD_IN_FLOAT32
from amp_migrate.rules.source_forms import APEX_AMP, HALF, PLAIN
from amp_migrate.rules.steps import NO_GRADIENTS


def make_plans(facts: Facts, found: Recognition, options: Options) -> list[TrainingPlan]:
    """Decide how the unit is written natively: one plan for each training that stands on its own.

    Raises Refusal where something cannot be decided.
    """
    hung = find_hung(facts, found)
    _settle_conditions(facts, found, hung)
    drop_identities(facts, found)
    plans: list[TrainingPlan] = []
    waiting = split_recognition(facts, found)
    while waiting:
        part, *waiting = waiting
        shared = [found.region for plan in plans for found in plan.regions]
        try:
            plan = _Planner(facts, part, options, shared, hung).plan()
        except _OutOfReach:
            waiting = [*split_recognition(facts, part), *waiting]  # states may have been all that held it together
            continue
        _drop_repeated(plan, plans)
        plans.append(plan)
    return plans


def _drop_repeated(plan: TrainingPlan, earlier: list[TrainingPlan]) -> None:
    """What two trainings run is repaired once."""
    for other in earlier:
        for mine, theirs in ((plan.safety, other.safety), (plan.logits, other.logits)):
            for field in dataclasses.fields(mine):
                known = getattr(theirs, field.name)
                if isinstance(known, list):
                    setattr(mine, field.name, [one for one in getattr(mine, field.name) if one not in known])
        known_calls = {site.call for site in other.bce}
        plan.bce = [site for site in plan.bce if site.call not in known_calls]


class _OutOfReach(Exception):
    """The scaler does not get to where checkpoints are made: these are left out now, and the rest is planned anew."""


class _Planner:
    def __init__(
        self,
        facts: Facts,
        found: Recognition,
        options: Options,
        shared: list[Region],
        hung: Hung | None,
    ) -> None:
        self.facts = facts
        self.hung = hung
        self.found = found
        self.shared = shared  # regions of other trainings: an evaluation that several call is wrapped once
        self.options = options
        self.visible = Visible(facts)

    def plan(self) -> TrainingPlan:
        roles = Roles(self.facts, self.found)
        check_unit(self.facts, self.found, roles)
        events = collect_events(self.facts, self.found, roles, repair_clips=self._repairs_clips)
        enabling = work_out_enabling(self.facts, self.found, self.hung)
        parameters = Parameters(self.facts)
        collapses = find_collapses(self.facts, self.found, parameters)
        decide = _World(self.facts, enabling).decide
        if self.found.form != APEX_AMP:
            check_clipped_sets(self.facts, roles, events)
        if self.found.form in (PLAIN, HALF) and self._scale_changes:
            check_processes(self.facts, roles)
        try:
            steps = plan_steps(self.facts, events, decide)
        except AddsGradients as refusal:
            scale_second_backward(self.facts, self.found, roles, refusal)
            return self.plan()
        except Unstepped as refusal:
            refusal.may_stay = self.found.form == PLAIN and starts_without_gradients(self.facts, events, decide)
            raise
        drop_packs(self.facts, self.found)
        self._check_gradients(steps)
        forwards = Forwards(self.facts, roles)
        check_threads(self.facts, self.found, forwards)
        clips = self._clips_of_scaled(events)
        clips_of_scaled = [] if self._repairs_clips else clips
        check_clips(self.facts, self.found, clips_of_scaled)
        alive, left_in_float32 = find_regions(self.facts, self.found, forwards, events)
        regions = [region for region in alive if not is_dead(region.first, decide)]
        for load in self.found.loads:
            load.format_test = format_test(self.facts, load)
        tests = self._remaining_tests(collapses)
        trainers = [one.statement.function for one in self.found.backwards] if self.found.casts_models else []
        methods = [one for one in dict.fromkeys(trainers) if one.instance is not None]
        text = EnabledText(self.facts, self.visible, enabling, methods)
        dtype = self.options.dtype
        scalers_of = Scalers(
            self.facts, self.found, dtype, roles, enabling, self.hung, self.visible, text, steps, regions
        )
        try:
            scalers = scalers_of.plan(tests)
        except Refusal:
            if not self._leave_states_out():
                raise
            raise _OutOfReach from None
        check_tests(self.facts, tests, scalers)
        self._check_handed_on(scalers)
        is_ever_half = not enabling.always_off or self.found.casts_models
        plan = TrainingPlan(
            found=self.found,
            enabling=enabling,
            roles=roles,
            parameters=parameters,
            collapses=collapses,
            steps=steps,
            regions=[],
            scalers=scalers,
            findings=list(self.found.findings),
            carrier_tests=tests,
            clips_of_scaled=clips_of_scaled,
            bce=[],
        )
        plan.skips = find_skips(self.facts, self.found, steps, free_name(self.facts, "scale", "old_scale"))
        hoisted = {region.hoisted for region in regions}
        shared = find_shared_backwards(self.facts, self.found)
        plan.shared_backwards = [one for one in shared if not {one.first, one.other} & hoisted]
        reached = Reached(self.facts, plan, forwards, regions)
        if is_ever_half:
            reached.make_safe()
        enabled = Enabled(self.facts, plan, text, decide)
        plan.regions = [enabled.training(region) for region in regions]
        plan.findings += keep_no_stale_casts(self.facts, forwards, plan.regions, reached.reach)
        if self.found.evaluates:
            enabled.evaluate(forwards, self.shared)
        if is_ever_half:
            reached.keep_results(dtype)
        for statement in left_in_float32:
            message = "this loss takes gradients as well: its forwards are in float32 now"
            plan.findings.append(self.facts.finding(statement.node, FORWARD_IN_FLOAT32, message))
        plan.findings.extend(notes(self.facts, self.options, plan, clips))
        plan.findings.extend(now_as_written(self.facts, self.found, roles, events, steps, decide))
        return plan

    def _check_gradients(self, steps: StepPlan) -> None:
        """`GradScaler.step` asserts that some parameter has a gradient, where apex just stepped (rule A7)."""
        if self.options.dtype != "float16":
            steps.left_out.clear()  # there is no scaler that asks
        elif steps.without_gradients:
            call = steps.without_gradients[0].call
            raise Refusal(NO_GRADIENTS, call, "there is a path to this step that passes no backward of its optimizer")
        elif steps.unmade:
            step = steps.unmade[0]
            message = (
                f"there is a path to this step on which nothing that {self.facts.text(step.optimizer)} has takes part"
            )
            raise Refusal(NO_GRADIENTS, step.call, f"{message} in the loss")
        if steps.two_scales and self._scale_changes:
            raise in_between(self.facts, steps.two_scales[0])

    @property
    def _scale_changes(self) -> bool:
        """False where there is no loss scale, or where the source keeps it as it is."""
        static = all(setup.loss_scale.static is not None for setup in self.found.setups)
        return self.options.dtype == "float16" and not static

    def _remaining_tests(self, collapses: list[Collapse]) -> list[cst.BaseExpression]:
        """Tests of a carrier that stay in the program and have no fixed answer."""
        gone = {part for collapse in collapses for part in walk(collapse.node.test)}
        tests = []
        for carrier in self.found.carriers:
            if carrier in gone or not self._is_read(carrier):
                continue
            if self.facts.conditions.constant(self.facts.conditions.carriers[carrier]) is None:
                tests.append(carrier)
        return tests

    def _is_read(self, carrier: cst.BaseExpression) -> bool:
        parent = self.facts.tree.parents.get(carrier)
        return isinstance(
            parent, (cst.If, cst.While, cst.Assert, cst.IfExp, cst.BooleanOperation, cst.UnaryOperation, cst.Comparison)
        )

    def _leave_states_out(self) -> bool:
        """Save no state of the scaler beside that of the optimizer, where the scaler may not get there: a builder that
        resumes a run, before what trains is made. False where there is no such state, or the form converts checkpoints.
        """
        saves = [one for one in self.found.added if one.saved_in is not None]
        if self.found.form != PLAIN or not saves:
            return False
        text = self.facts.text(saves[0].optimizer)
        message = f"the state of {text} is saved or loaded where no scaler is known: that of the scaler is not saved"
        self.found.findings.append(self.facts.finding(saves[0].statement.node, SCALER_NOT_SAVED, message))
        self.found.added.clear()
        return True

    def _check_handed_on(self, scalers: list[Scaler]) -> None:
        """An argument `amp` becomes the scaler. Nothing takes its place where bfloat16 needs none, and where a function
        does nothing with it that needs a scaler, or keeps it for others in a way that is not followed.
        """
        for one in self.found.handed if self.options.dtype != "float16" else ():
            message = f"{self.facts.text(one.node)} is saved by code that has no scaler to save"
            raise Refusal(UNKNOWN_AMP_USE, one.node, message, case="scaler")
        replaced = [argument.replaces for scaler in scalers for argument in scaler.binding.arguments]
        for carrier in self.found.carriers:
            argument = self.facts.tree.parents.get(carrier)
            if isinstance(argument, cst.Arg) and argument not in replaced:
                text = self.facts.text(carrier)
                how = "has no use for it any more" if self.options.dtype != "float16" else "is given no scaler for it"
                raise Refusal(UNKNOWN_AMP_USE, carrier, f"{text} is handed to a function that {how}", case="scaler")

    @property
    def _repairs_clips(self) -> bool:
        """Without a loss scale there is nothing to keep."""
        return self.options.repair_clip or self.options.dtype == "bfloat16"

    def _clips_of_scaled(self, events: Events) -> list[cst.Call]:
        """Clips inside the `with`, and in what is given the scaled loss there: apex had not unscaled yet, so they clip
        scaled gradients (rule D6).
        """
        inside = [one.statement.descendants() for one in self.found.backwards]
        inside += [function.descendants() for function in events.given_scaled]
        parts = [part for one in chain(*inside) for part in self.facts.tree.expressions(one)]
        return [one for one in parts if isinstance(one, cst.Call) and "clip_grad" in self.facts.text(one.func)]


def _settle_conditions(facts: Facts, found: Recognition, hung: Hung | None) -> None:
    """What carriers and availability flags mean, before any test that reads them is compiled."""
    conditions = facts.conditions
    for variable in availability_flags(facts, found.imports):
        conditions.known["variable", variable] = True
    conditions.always = set(found.settled)
    conditions.carriers = carrier_formulas(facts, found, hung)


class _World:
    """The program where mixed precision is on: tests that this settles have one answer."""

    def __init__(self, facts: Facts, enabling: Enabling) -> None:
        self.facts = facts
        self.on = enabling.formula
        self.given = enabling.given
        self._memo: dict[cst.BaseExpression, bool | None] = {}

    def decide(self, test: cst.BaseExpression) -> bool | None:
        if test not in self._memo:
            self._memo[test] = self.facts.conditions.settled(test, self._around(test))
        return self._memo[test]

    def _around(self, test: cst.BaseExpression) -> Formula:
        """What holds where a test is asked: a parameter that stands for the condition is true there."""
        names = [one.parameter.name for one in self.given if test in one.tests]
        return conjunction([self.on, *map(self.facts.conditions.compile, names)])
