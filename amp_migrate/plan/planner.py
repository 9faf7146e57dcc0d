"""From what a front end found to the plan of the unit."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable
from typing import Any

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import conjunction
from amp_migrate.facts.elsewhere import shown
from amp_migrate.facts.paths import is_dead
from amp_migrate.facts.tree import Function, Statement, walk
from amp_migrate.facts.variables import Variable
from amp_migrate.findings import Refusal
from amp_migrate.options import Options
from amp_migrate.plan.apex_bugs import now_as_written
from amp_migrate.plan.arms import Collapse, find_collapses
from amp_migrate.plan.checkpoints import format_test
from amp_migrate.plan.enabled_text import EnabledText, Unknown
from amp_migrate.plan.exclusions import check_clips, check_tests, check_threads, check_unit
from amp_migrate.plan.flags import availability_flags
from amp_migrate.plan.half_inputs import cast_outside, check_half_inputs
from amp_migrate.plan.identities import drop_identities
from amp_migrate.plan.model import LossScale, Recognition
from amp_migrate.plan.notes import notes
from amp_migrate.plan.parameters import Parameters
from amp_migrate.plan.regions.arrays import halves_for_numpy
from amp_migrate.plan.regions.bce import plan_bce
from amp_migrate.plan.regions.cached_casts import keep_no_stale_casts
from amp_migrate.plan.regions.evaluation import Evaluation, asks_anew
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.given_to_models import check_given_to_models
from amp_migrate.plan.regions.leaving import halves_leaving
from amp_migrate.plan.regions.logits import Logits, plan_logits
from amp_migrate.plan.regions.sums_after import halves_summed_after
from amp_migrate.plan.regions.training import Region, find_regions
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.functions import guard_functions
from amp_migrate.plan.safety.kept_casts import check_models, check_users
from amp_migrate.plan.safety.precision import Precisions
from amp_migrate.plan.safety.reach import Reach
from amp_migrate.plan.safety.repairs import Safety
from amp_migrate.plan.safety.scan import match_mixed_types, scan
from amp_migrate.plan.safety.sums import summed_losses
from amp_migrate.plan.scaler.asked_models import AskedModels
from amp_migrate.plan.scaler.before_setup import reached_without_setup, runs_before_setup
from amp_migrate.plan.scaler.binder import Binder
from amp_migrate.plan.scaler.binding import Binding, Creation
from amp_migrate.plan.scaler.carried import Hung, find_hung
from amp_migrate.plan.scaler.enabling import Enabling, carrier_formulas, enclosing_guards, work_out_enabling
from amp_migrate.plan.scaler.loss_scales import one_loss_scale
from amp_migrate.plan.scaler.visible import Visible
from amp_migrate.plan.split import split_recognition
from amp_migrate.plan.steps.clipped_sets import check_clipped_sets
from amp_migrate.plan.steps.events import collect_events
from amp_migrate.plan.steps.placement import StepPlan, plan_steps
from amp_migrate.plan.steps.second_backwards import AddsGradients, scale_second_backward
from amp_migrate.plan.steps.skips import find_skips
from amp_migrate.plan.training_plan import AutocastRegion, Scaler, TrainingPlan
from amp_migrate.selection import APEX_AMP, PLAIN

Users = dict[Function, list[Statement]]


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
        try:
            steps = plan_steps(self.facts, events, decide)
        except AddsGradients as refusal:
            scale_second_backward(self.facts, self.found, roles, refusal)
            return self.plan()
        self._check_gradients(steps)
        forwards = Forwards(self.facts, roles)
        check_threads(self.facts, forwards)
        clips = self._clips_of_scaled()
        clips_of_scaled = [] if self._repairs_clips else clips
        check_clips(self.facts, self.found, clips_of_scaled)
        regions = [
            region
            for region in find_regions(self.facts, self.found, forwards, events)
            if not is_dead(region.first, decide)
        ]
        for load in self.found.loads:
            load.format_test = format_test(self.facts, load)
        tests = self._remaining_tests(collapses)
        trainers = [one.statement.function for one in self.found.backwards] if self.found.casts_models else []
        methods = [one for one in dict.fromkeys(trainers) if one.is_method and one.parameters]
        text = EnabledText(self.facts, self.visible, enabling, methods)
        users = self._users(steps, tests)
        blind = self._add_blind_regions(users, regions, text)
        asking = {region.function for region in regions if self._asks_parameters(region.function, text)}
        updating = {update.at.function for update in steps.updates}
        try:
            scalers = self._scalers(roles, enabling, users, updating, asking, text, blind=blind)
        except Refusal:
            if not self._leave_states_out():
                raise
            raise _OutOfReach from None
        check_tests(self.facts, tests, scalers)
        self._check_handed_on(scalers)
        check_given_to_models(self.facts, forwards, regions)
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
            floats=halves_leaving(self.facts, forwards, regions),
            bce=[],
        )
        plan.skips = find_skips(self.facts, self.found, steps, self._free_name("scale", "old_scale"))
        plan.logits = Logits() if self.found.is_proven else plan_logits(self.facts)
        reach = Reach(self.facts, forwards, regions)
        if self.found.is_proven:
            self._check_losses_are_read(reach)
        plan.bce = plan_bce(self.facts, forwards, regions, reach.statements, plan.logits.criteria)
        if plan.bce:  # regions have become shorter
            reach = Reach(self.facts, forwards, regions)
        self._keep_safe(plan, regions, reach)
        plan.regions = [self._with_enabled(region, plan, text) for region in regions]
        plan.findings += keep_no_stale_casts(self.facts, forwards, plan.regions, reach)
        if self.found.evaluates:
            self._evaluation(plan, forwards, text)
        self._keep_arrays(plan, forwards, regions, reach)
        self._keep_sums(plan, forwards, regions, reach)
        plan.findings.extend(notes(self.facts, self.options, plan, clips))
        plan.findings.extend(now_as_written(self.facts, self.found, roles, events, steps, decide))
        return plan

    def _keep_safe(self, plan: TrainingPlan, regions: list[Region], reach: Reach) -> None:
        """Repair what autocast breaks in the code that regions lead to, which depends on how much of it was in half."""
        if not self.found.is_proven:
            self._add_models(reach)
            plan.safety = scan(self.facts, reach, plan.bce, self.found.backwards)
            plan.findings += plan.safety.findings
            self._check_is_read(plan)
            self._check_callers(plan.roles, reach)
            self._check_sigmoids(plan)
        elif regions and not all(setup.level in ("O0", "O1") for setup in self.found.setups):
            self._add_models(reach)
            self._check_mixing_is_read(reach)
            match_mixed_types(self.facts, reach, plan.safety)
            plan.findings += plan.safety.findings
        if self.found.casts_models:
            plan.safety = Safety(unread=reach.unread)
            self._check_is_read(plan)
            check_users(self.facts, self.found.backwards, regions)
            check_models(self.facts, reach)
            guard_functions(Context(self.facts, reach, Precisions(self.facts, plan.safety), plan.safety), again=True)
        if not self.found.is_scaled:
            plan.findings += summed_losses(self.facts, reach, self.found.backwards)

    def _add_models(self, reach: Reach) -> None:
        for setup in self.found.setups:
            for model in setup.models:
                reach.add_model(model, setup.call)

    def _keep_arrays(self, plan: TrainingPlan, forwards: Forwards, regions: list[Region], reach: Reach) -> None:
        """What NumPy is given; other forms gave it half before, but bfloat16 is none of its types."""
        if self.found.is_proven and self.options.dtype != "bfloat16":
            return
        precisions = Precisions(self.facts, plan.safety)
        losses = self.found.backwards
        asks_models = self.found.casts_models or not (self.found.is_proven and self.found.is_scaled)
        reached = reach.statements if asks_models else []
        for node in halves_for_numpy(self.facts, forwards, regions, precisions, reached, losses):
            if node not in plan.floats:
                plan.safety.keep_float32(node)

    def _keep_sums(self, plan: TrainingPlan, forwards: Forwards, regions: list[Region], reach: Reach) -> None:
        """What is summed after a region; other forms summed half before."""
        if self.found.is_proven:
            return
        precisions = Precisions(self.facts, plan.safety)
        inside = {statement.function for statement in reach.statements}
        for node in halves_summed_after(self.facts, forwards, regions, precisions, inside):
            if node not in plan.floats:
                plan.safety.keep_float32(node)

    def _check_is_read(self, plan: TrainingPlan) -> None:
        """Other forms prove that their models survive half, those of a plain loop have to be read (rule H4)."""
        _refuse_unread(plan.safety.unread, "runs under autocast, and its file is not among those looked at")

    def _check_losses_are_read(self, reach: Reach) -> None:
        """A binary cross entropy raises under autocast: its file belongs to the unit (rule E4)."""
        unread = {name: call for name, call in reach.unread.items() if self.facts.elsewhere.compute_bce(name)}
        _refuse_unread(unread, "computes a binary cross entropy under autocast, and its file is not at hand")

    def _check_mixing_is_read(self, reach: Reach) -> None:
        """A model of half weights had one type throughout: where it writes by index, its file belongs to the unit."""
        unread = {name: call for name, call in reach.unread.items() if self.facts.elsewhere.want_one_dtype(name)}
        _refuse_unread(unread, "writes by index what may be half beside float32 now, and its file is not at hand")

    def _check_callers(self, roles: Roles, reach: Reach) -> None:
        """What a plain loop runs under autocast has to be made in the unit, or its code would go unread (rule H4)."""
        for call, _ in reach.calls():
            if roles.is_forward(call) and self._is_from_unknown_caller(call.func, reach):
                text = self.facts.text(call.func)
                raise Refusal("AMP951", call, f"{text} comes from a caller that is not known")
            maker = self._maker_out_of_sight(call.func, reach) if roles.is_forward(call) else None
            if maker is not None:
                text, made = self.facts.text(call.func), self.facts.text(maker)
                raise Refusal("AMP951", call, f"{text} is made by {made}, which comes from a caller that is not known")
        if reach.hidden:
            text = self.facts.text(reach.hidden[0])
            raise Refusal("AMP951", reach.hidden[0], f"what {text} means is known when the script runs only")

    def _is_from_unknown_caller(
        self, node: cst.BaseExpression, reach: Reach, passed_on: frozenset[Variable] = frozenset()
    ) -> bool:
        """True for a model that nothing in the unit makes: only a parameter holds it, which no call may give, or which
        such a parameter is handed on to (`super().__init__(model)`).
        """
        sources = [one.source for one in self.facts.objects.objects(node)]
        return bool(sources) and all(
            one.kind == "parameter"
            and isinstance(one.origin, Variable)
            and (
                one.origin in passed_on
                or all(
                    self._is_from_unknown_caller(given, reach, passed_on | {one.origin})
                    for given in reach.possibly_given(one.origin)
                )
            )
            for one in sources
        )

    def _maker_out_of_sight(self, node: cst.BaseExpression, reach: Reach) -> cst.BaseExpression | None:
        """`experiment.builder.build` for a model that only such a method makes, of what nothing in the unit gives; or
        `make`, which is given itself.
        """
        sources = [one.source for one in self.facts.objects.objects(node)]
        makers = [one.origin.func for one in sources if one.kind == "call" and isinstance(one.origin, cst.Call)]
        out_of_sight = [
            maker
            for maker in makers
            if isinstance(maker, (cst.Name, cst.Attribute))
            if self._is_from_unknown_caller(maker.value if isinstance(maker, cst.Attribute) else maker, reach)
        ]
        return out_of_sight[0] if out_of_sight and len(out_of_sight) == len(sources) else None

    def _check_sigmoids(self, plan: TrainingPlan) -> None:
        """Other forms prove that the training survives half probabilities, a plain loop does not (rules E4, H4)."""
        for site in plan.bce:
            if not site.sigmoid_in_sight:
                text = self.facts.text(site.call.args[0].value if site.call.args else site.call)
                message = f"the sigmoid that makes {text} is not in sight, or half precision comes after it"
                raise Refusal("AMP967", site.call, message)

    # -- uses of the scaler -----------------------------------------------------------------------------

    def _check_gradients(self, steps: StepPlan) -> None:
        """`GradScaler.step` asserts that some parameter has a gradient, where apex just stepped (rule A7)."""
        if steps.without_gradients and self.options.dtype == "float16":
            call = steps.without_gradients[0].call
            raise Refusal("AMP921", call, "there is a path to this step that passes no backward of its optimizer")

    def _remaining_tests(self, collapses: list[Collapse]) -> list[cst.BaseExpression]:
        """Tests of a carrier that stay in the program and have no fixed answer."""
        gone = {id(part) for collapse in collapses for part in self._nodes_of_test(collapse)}
        tests = []
        for carrier in self.found.carriers:
            if id(carrier) in gone or not self._is_read(carrier):
                continue
            if self.facts.conditions.constant(self.facts.conditions.carriers[carrier]) is None:
                tests.append(carrier)
        return tests

    def _nodes_of_test(self, collapse: Collapse) -> list[cst.CSTNode]:
        return list(walk(collapse.node.test))

    def _is_read(self, carrier: cst.BaseExpression) -> bool:
        parent = self.facts.tree.parents.get(carrier)
        return isinstance(
            parent, (cst.If, cst.While, cst.Assert, cst.IfExp, cst.BooleanOperation, cst.UnaryOperation, cst.Comparison)
        )

    def _users(self, steps: StepPlan, tests: list[cst.BaseExpression]) -> Users:
        """The functions that name the scaler, with the statements that do."""
        found = self.found
        if self.options.dtype == "bfloat16":
            return _by_function(self.facts.tree.statement_of(test) for test in tests)
        statements = [backward.statement for backward in found.backwards]
        statements += [unscale.before for unscale in steps.unscales]
        statements += [update.at for update in steps.updates]
        statements += [step.statement for step in steps.steps]
        statements += [use.statement for use in steps.micro_uses]
        statements += [access.statement for access in (*found.saves, *found.loads)]
        statements += [one.statement for one in found.added]
        statements += [read.statement for read in found.scale_reads]
        statements += [one.statement for one in found.handed]
        statements += [self.facts.tree.statement_of(test) for test in tests]
        return _by_function(statements)

    def _asks_parameters(self, function: Function, text: EnabledText) -> bool:
        """True where the condition, as the function writes it, reads one of its parameters."""
        written = text.in_function(function)
        names = {param.name.value for param in function.parameters}
        return isinstance(written, str) and any(
            isinstance(part, ast.Name) and part.id in names for part in ast.walk(ast.parse(written, mode="eval"))
        )

    def _add_blind_regions(self, users: Users, regions: list[Region], text: EnabledText) -> bool:
        """Regions whose function does not know the condition have to be told; True where there are any."""
        blind = False
        for region in regions:
            if isinstance(text.in_function(region.function), Unknown):
                users.setdefault(region.function, []).append(region.first)
                blind = True
        return blind

    # -- scalers ----------------------------------------------------------------------------------------

    def _scalers(
        self,
        roles: Roles,
        enabling: Enabling,
        users: Users,
        updating: set[Function],
        asking: set[Function],
        text: EnabledText,
        *,
        blind: bool,
    ) -> list[Scaler]:
        training = [setup for setup in self.found.setups if setup.optimizers]
        if not training or not users:
            return []
        loss_scale = one_loss_scale(self.facts, training)

        def bind(text: EnabledText) -> tuple[Binding, str | None]:
            def can_create(function: Function) -> bool:
                return self._knows_settings(function, loss_scale) and text.can_be_on(function)

            found = Binder(self.facts, self.found, roles, enabling, users, asking, can_create, self.hung).bind()
            return found, self._enabled_at(found.creations, text)

        try:
            binding, enabled = bind(text)
        except Refusal as refusal:
            try:
                binding, enabled = bind(text.asking(AskedModels(self.facts, roles)))
            except Refusal:
                raise refusal from None
        if self.options.dtype == "bfloat16":
            name = self._free_name("use_amp", "amp_enabled")
            return [Scaler(training, name, binding, enabled, LossScale(), is_flag=True)]
        loss_scale = self._settings_at(binding.creations, loss_scale)
        scaler = Scaler(training, self._free_name("scaler", "grad_scaler", "amp_scaler"), binding, enabled, loss_scale)
        if loss_scale.runtime is not None:
            scaler.scale_name = self._free_name("loss_scale", "static_loss_scale")
            given = [parameter.function for parameter in binding.parameters]
            scaler.updating = frozenset(one for one in given if self._leads_to(one, updating))
        if blind and not text.follows_scaler(loss_scale):
            scaler.flag_name = self._free_name("use_amp", "amp_enabled")
        if binding.carriers and not binding.taken_up and len(scaler.names) > 1:
            message = "a loss scale of its own cannot travel where the source's handle did"
            raise Refusal("AMP914", training[0].call, message)
        return [scaler]

    def _knows_settings(self, function: Function, scale: LossScale) -> bool:
        """True where a function can write what is only known when the script runs."""
        settings = (scale.runtime, scale.dynamic_when, scale.used_when)
        return all(node is None or self.visible.express(node, function) is not None for node in settings)

    def _enabled_at(self, creations: list[Creation], text: EnabledText) -> str | None:
        """The condition as it is written where the scaler is created, which is the same everywhere."""
        enabled = text.at_creation(creations[0])
        for creation in creations[1:]:
            if text.at_creation(creation) != enabled:
                message = "another amp.initialize of this class is guarded by something that is not known here"
                raise Refusal("AMP914", creation.at.node, message)
        return enabled

    def _leads_to(self, function: Function, targets: set[Function]) -> bool:
        inner = [one for one in self.facts.tree.functions if one is function or function.encloses(one)]
        return any(self.facts.calls.reaches(one, targets.__contains__) for one in inner)

    def _leave_states_out(self) -> bool:
        """Save no state of the scaler beside that of the optimizer, where the scaler may not get there: a builder that
        resumes a run, before what trains is made. False where there is no such state, or the form converts checkpoints.
        """
        saves = [one for one in self.found.added if one.saved_in is not None]
        if self.found.form != PLAIN or not saves:
            return False
        text = self.facts.text(saves[0].optimizer)
        message = f"the state of {text} is saved or loaded where no scaler is known: that of the scaler is not saved"
        self.found.findings.append(self.facts.finding(saves[0].statement.node, "AMP413", message))
        self.found.added.clear()
        return True

    def _settings_at(self, creations: list[Creation], scale: LossScale) -> LossScale:
        """The settings of the loss scale as they are written where the scaler is created. Raises Refusal."""
        written: dict[str, Any] = {}
        for field in ("runtime", "initial", "dynamic_when", "used_when", "growth_interval", "growth_factor"):
            node = getattr(scale, field)
            if node is None:
                continue
            places = [(creation.function, creation.at if creation.before else None) for creation in creations]
            texts = {self.visible.express(node, function, at) for function, at in places}
            text = texts.pop() if len(texts) == 1 else None
            if text is None:
                message = f"{self.facts.text(node)} is not known where the scaler has to be created"
                raise Refusal("AMP914", node, message)
            written[field] = node if text == self.facts.text(node) else cst.parse_expression(text)
        return dataclasses.replace(scale, **written)

    def _check_handed_on(self, scalers: list[Scaler]) -> None:
        """An argument `amp` becomes the scaler. Nothing takes its place where bfloat16 needs none, and where a function
        does nothing with it that needs a scaler, or keeps it for others in a way that is not followed.
        """
        for one in self.found.handed if self.options.dtype != "float16" else ():
            raise Refusal(
                "AMP902", one.node, f"{self.facts.text(one.node)} is saved by code that has no scaler to save"
            )
        replaced = [argument.replaces for scaler in scalers for argument in scaler.binding.arguments]
        for carrier in self.found.carriers:
            argument = self.facts.tree.parents.get(carrier)
            if isinstance(argument, cst.Arg) and argument not in replaced:
                text = self.facts.text(carrier)
                how = "has no use for it any more" if self.options.dtype != "float16" else "is given no scaler for it"
                raise Refusal("AMP902", carrier, f"{text} is handed to a function that {how}")

    def _free_name(self, *candidates: str) -> str:
        """The first of the names that the file uses for nothing else."""
        taken = {name for name, _ in self.facts.objects.all_stores()}
        for part, _ in self.facts.tree.every(cst.Name):
            if self._is_taken(part):
                taken.add(part.value)
        return next((name for name in candidates if name not in taken), f"amp_{candidates[0]}")

    def _is_taken(self, name: cst.Name) -> bool:
        """True for names of their own, and for attributes of `self`, which a base class may set elsewhere."""
        parent = self.facts.tree.parents.get(name)
        if isinstance(parent, cst.Attribute) and parent.attr is name:
            return isinstance(parent.value, cst.Name) and parent.value.value == "self"
        return not self.facts.tree.is_label(name)

    # -- regions ----------------------------------------------------------------------------------------

    def _with_enabled(self, region: Region, plan: TrainingPlan, text: EnabledText) -> AutocastRegion:
        gone = {collapse.statement for collapse in plan.collapses}
        guards = [guard for guard in enclosing_guards(self.facts, region.first) if guard.statement not in gone]
        known = conjunction([guard.formula for guard in guards])
        if plan.enabling.parts and self.facts.conditions.implies(known, plan.enabling.formula):
            return AutocastRegion(region, None)
        scaler = plan.scaler_for(region.function)
        if scaler is not None and not scaler.binding.is_set_early:
            decide = _World(self.facts, plan.enabling).decide
            if runs_before_setup(self.facts, self.found, region.first, decide):
                scaler = None  # not created yet
        found = text.for_region(region.function, scaler)
        if isinstance(found, Unknown):
            raise Refusal(
                "AMP914", region.first.node, "the condition for mixed precision is not known where the forward runs"
            )
        return AutocastRegion(region, found)

    def _evaluation(self, plan: TrainingPlan, forwards: Forwards, text: EnabledText) -> None:
        """Forwards without gradients, where the condition is in scope; the others stay in float32."""
        covered = [*self.shared, *(found.region for found in plan.regions)]
        evaluation = Evaluation(self.facts, self.found, forwards, covered)
        evaluation.find(inference=not self.found.backwards)
        # What never set mixed precision up was in float32, as it is now.
        elsewhere = self.facts.calls.of_other_programs({setup.statement.function for setup in self.found.setups})
        left = {one: why for one, why in evaluation.left.items() if one.function not in elsewhere}
        firsts = [found.region.first for found in evaluation.regions]
        decide = _World(self.facts, plan.enabling).decide
        never_set_up = reached_without_setup(self.facts, self.found, firsts, decide)
        for found in evaluation.regions:
            if is_dead(found.region.first, decide):
                continue
            if found.region.first in never_set_up:
                left[found.region.first] = "mixed precision may not be set up there"
                continue
            scaler = plan.scaler_for(found.region.function)
            early = scaler if scaler is not None and scaler.binding.is_set_early else None
            enabled = text.for_region(found.region.function, early)
            asks = isinstance(enabled, str) and asks_anew(self.facts, found.region.function, enabled)
            if asks and self.facts.is_used_outside(found.region.function):
                left[found.region.first] = "other files call it with options of their own"
            elif isinstance(enabled, str) or enabled is None:
                plan.regions.append(AutocastRegion(found.region, enabled, evaluation=True))
                plan.floats.extend(found.floats)
            else:
                left[found.region.first] = "the condition of mixed precision is not known there"
        outside = cast_outside(self.facts, [found.region for found in plan.regions], forwards)
        check_half_inputs(self.facts, self.found, [*left, *outside])
        if not plan.regions and not left:
            for setup in self.found.setups:
                message = "no forward of this model is in this file: wherever it runs, it is in float32 now"
                plan.findings.append(self.facts.finding(setup.call, "AMP106", message))
        for function, statements in _by_function(left).items():
            count = len(statements)
            what = "a forward without gradients stays" if count == 1 else f"{count} forwards without gradients stay"
            why = ", ".join(dict.fromkeys(left[statement] for statement in statements))
            message = f"{what} in float32 in {function.name}: {why}"
            plan.findings.append(self.facts.finding(statements[0].node, "AMP106", message))

    # -- existing bugs ----------------------------------------------------------------------------------

    @property
    def _repairs_clips(self) -> bool:
        """Without a loss scale there is nothing to keep."""
        return self.options.repair_clip or self.options.dtype == "bfloat16"

    def _clips_of_scaled(self) -> list[cst.Call]:
        """Clips inside the `with`: apex had not unscaled yet, so they clip scaled gradients (rule D6)."""
        clips = []
        for backward in self.found.backwards:
            for statement in backward.statement.descendants():
                for part in self.facts.tree.expressions(statement):
                    if isinstance(part, cst.Call) and "clip_grad" in self.facts.text(part.func):
                        clips.append(part)
        return clips


def _by_function(statements: Iterable[Statement]) -> Users:
    users: Users = {}
    for statement in statements:
        users.setdefault(statement.function, []).append(statement)
    return users


def _refuse_unread(unread: dict[str, cst.CSTNode], what: str) -> None:
    """A refusal for the first of some names of other files; with them all, their files may join the unit."""
    if unread:
        name = min(unread)
        raise Refusal("AMP970", unread[name], f"{shown(name)} {what}", tuple(unread))


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
        self._memo: dict[cst.BaseExpression, bool | None] = {}

    def decide(self, test: cst.BaseExpression) -> bool | None:
        if test not in self._memo:
            self._memo[test] = self.facts.conditions.settled(test, self.on)
        return self._memo[test]
