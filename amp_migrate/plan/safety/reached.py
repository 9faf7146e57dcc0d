"""The code that the regions of a training lead to: read, refused where it cannot survive autocast, and repaired."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.elsewhere import shown
from amp_migrate.facts.variables import Variable
from amp_migrate.files.binary_cross_entropy import computes_bce
from amp_migrate.files.definitions import any_named
from amp_migrate.files.one_dtype import (
    casts_to_float32,
    multiplies,
    multiplies_in_backward,
    multiplies_in_place,
    wants_one_dtype,
)
from amp_migrate.findings import Refusal
from amp_migrate.interp.steps import Steps
from amp_migrate.interp.values import Values
from amp_migrate.plan.regions.arrays import halves_before_numpy
from amp_migrate.plan.regions.bce import plan_bce
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.half_gradients import half_gradients
from amp_migrate.plan.regions.logits import Logits, plan_logits
from amp_migrate.plan.regions.region import Region, UnderAutocast
from amp_migrate.plan.regions.sums_after import halves_summed_after
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.safety.after_regions import context_after, match_operands, raise_operands
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.functions import guard_functions, guard_products
from amp_migrate.plan.safety.handed_on import keep_handed_on
from amp_migrate.plan.safety.in_place import match_products_in_place
from amp_migrate.plan.safety.indexed import match_indexed_writes
from amp_migrate.plan.safety.isolated_products import given_casts
from amp_migrate.plan.safety.kept_casts import check_models, check_users
from amp_migrate.plan.safety.linear_algebra import keep_linear_algebra
from amp_migrate.plan.safety.masks import keep_masks
from amp_migrate.plan.safety.precision import Precisions
from amp_migrate.plan.safety.reach import Reach
from amp_migrate.plan.safety.repairs import Safety
from amp_migrate.plan.safety.scan import match_mixed_types, scan
from amp_migrate.plan.safety.sums import summed_losses
from amp_migrate.plan.safety.vanishing import keep_epsilons
from amp_migrate.plan.training_plan import TrainingPlan
from amp_migrate.rules.plain import UNKNOWN_CALLER
from amp_migrate.rules.safety import BCE_ON_PROBABILITIES, FOREIGN_CODE, UNREAD_CODE
from amp_migrate.rules.source_forms import APEX_AMP


class Reached:
    """What the regions of a plan lead to. Its repairs are written into the plan; it raises Refusal."""

    def __init__(self, facts: Facts, plan: TrainingPlan, forwards: Forwards, regions: list[Region]) -> None:
        self.facts = facts
        self.found = plan.found
        self.plan = plan
        self.forwards = forwards
        self.regions = regions
        self.reach = Reach(facts, forwards, regions)

    def make_safe(self) -> None:
        """Everything that runs under autocast."""
        plan, found = self.plan, self.found
        plan.logits = Logits() if found.is_proven else plan_logits(self.facts)
        if found.is_proven:
            # A binary cross entropy raises under autocast: its file belongs to the unit (rule E4).
            self._refuse_unread(computes_bce, "computes a binary cross entropy under autocast")
        criteria, splits = plan.logits.criteria, not found.is_proven
        plan.bce = plan_bce(self.facts, self.forwards, self.regions, self.reach.statements, criteria, splits=splits)
        if plan.bce:  # regions have become shorter
            self.reach = Reach(self.facts, self.forwards, self.regions)
        self._repair()

    def keep_results(self, dtype: str) -> None:
        """What regions hand to code that runs without autocast, evaluations included."""
        self._keep_operands()
        self._keep_arrays(dtype)
        self._keep_gradients()

    def _repair(self) -> None:
        """Repair what autocast breaks in the code that regions lead to, which depends on how much of it was in half."""
        plan, reach = self.plan, self.reach
        if not self.found.is_proven:
            self._add_models()
            plan.safety = scan(self.facts, reach, plan.bce, self.found.backwards)
            plan.findings += plan.safety.findings
            # Other forms prove that their models survive half, those of a plain loop have to be read (rule H4).
            self._refuse_unread(plan.safety.unread.__contains__, "runs under autocast")
            self._check_callers(plan.roles)
            self._check_sigmoids()
        elif self.regions and not self._ran_patched:
            self._add_models()
            # A model of half weights had one type throughout: where it writes by index, its file belongs to the unit.
            does = partial(any_named, wants_one_dtype)
            self._refuse_unread(does, "writes by index what may be half beside float32 now")
            self._check_casts_are_read()
            match_mixed_types(self.facts, reach, plan.safety)
            plan.findings += plan.safety.findings
        if self.found.is_proven:
            # Nor did a product in a backward of the script's own know two types.
            does = partial(any_named, multiplies_in_backward)
            self._refuse_unread(does, "multiplies half by float32 in a backward of its own now")
            guard_products(Context(self.facts, reach, Precisions(self.facts, plan.safety), plan.safety))
            self._match_products_in_place()
        if self.found.casts_models:
            plan.safety = Safety(unread=reach.unread)
            self._refuse_unread(reach.unread.__contains__, "runs under autocast")
            check_users(self.facts, self.found.backwards, self.regions)
            check_models(self.facts, reach)
            guard_functions(Context(self.facts, reach, Precisions(self.facts, plan.safety), plan.safety), again=True)
        if not self.found.is_scaled:
            plan.findings += summed_losses(self.facts, reach, self.found.backwards)

    @property
    def _ran_patched(self) -> bool:
        """True where no weights were half: Apex's O1 had patched torch, and cast what it was given."""
        return all(setup.level in ("O0", "O1") for setup in self.found.setups)

    def _match_products_in_place(self) -> None:
        """Apex had matched the types of products in place, of which autocast knows nothing."""
        levels = {setup.level for setup in self.found.setups}
        if not self.regions or levels == {"O0"}:
            return
        if levels == {"O1"}:
            self._add_models()
        does = partial(any_named, multiplies_in_place)
        self._refuse_unread(does, "multiplies in place what may be half beside float32")
        match_products_in_place(
            Context(self.facts, self.reach, Precisions(self.facts, self.plan.safety), self.plan.safety)
        )

    def _add_models(self) -> None:
        for setup in self.found.setups:
            for model in setup.models:
                self.reach.add_model(model, setup.call)

    def _keep_arrays(self, dtype: str) -> None:
        """What NumPy is given; other forms gave it half before, but bfloat16 is none of its types."""
        if self.found.is_proven and dtype != "bfloat16":
            return
        for node in [*halves_before_numpy(self.facts, self._values(), self.found.backwards)]:
            self.plan.safety.keep_float32(node)

    def _keep_sums(self) -> None:
        """What is summed after a region; other forms summed half before, but Apex's O1 summed in float32."""
        if self.found.is_proven and self.found.form != APEX_AMP:
            return
        for node in [*halves_summed_after(self.facts, self._values())]:
            self.plan.safety.keep_float32(node)

    def _keep_operands(self) -> None:
        """What operations after a region are given. Under Apex's O1 it was half already, and products were patched."""
        context = context_after(self.facts, self.regions, self._values(), self.plan.safety)
        raise_operands(context)
        # What a model returned was float32 also under Apex's O2.
        is_seen = not self.found.is_proven or (self.found.form == APEX_AMP and not self._ran_patched)
        keep_handed_on(context, self.forwards, self.regions, is_seen=is_seen)
        self._keep_sums()
        match_operands(context)
        keep_linear_algebra(context)
        if not (self.found.is_proven and self._ran_patched):
            keep_masks(context)
            keep_epsilons(context)
            match_indexed_writes(context)

    def _values(self) -> Values:
        """What values are inside of regions and outside, with what is cast where they leave."""
        autocast = UnderAutocast(self.regions, self.reach.statements)
        return Values(self.facts, self.facts.analysis(Steps), self.plan.safety, autocast)

    def _keep_gradients(self) -> None:
        """What Apex made of gradients in float32."""
        if self.found.form == APEX_AMP:
            for node in half_gradients(self.facts, self._values(), self.regions):
                self.plan.safety.keep_float32(node)

    def _check_casts_are_read(self) -> None:
        """Nor was a product in half of what the script had cast to float32: its file belongs to the unit."""
        context = Context(self.facts, self.reach, Precisions(self.facts, self.plan.safety), self.plan.safety)
        given = given_casts(context, self.reach.unread)
        self._refuse_unread(
            lambda name: any_named(multiplies, name) and (name in given or any_named(casts_to_float32, name)),
            "multiplies in half what was cast to float32",
        )

    def _refuse_unread(self, does: Callable[[str], bool], what: str) -> None:
        """A refusal for the first of the names of other files that do something; with them all, their files may join
        the unit.
        """
        unread = tuple(filter(does, self.reach.unread))
        if unread:
            first = min(unread)
            message = f"{shown(first)} {what}, and its file was not read"
            raise Refusal(UNREAD_CODE, self.reach.unread[first], message, unread)

    def _check_callers(self, roles: Roles) -> None:
        """What a plain loop runs under autocast has to be made in the unit, or its code would go unread (rule H4)."""
        for call, _ in self.reach.calls():
            if not roles.is_forward(call) and not roles.is_about_trained(call):
                continue
            if self._is_from_unknown_caller(call.func):
                text = self.facts.text(call.func)
                raise Refusal(UNKNOWN_CALLER, call, f"{text} comes from a caller that is not known")
            maker = self._maker_out_of_sight(call.func)
            if maker is not None:
                text, made = self.facts.text(call.func), self.facts.text(maker)
                message = f"{text} is made by {made}, which comes from a caller that is not known"
                raise Refusal(UNKNOWN_CALLER, call, message, case="model")
        if self.reach.hidden:
            text = self.facts.text(self.reach.hidden[0])
            message = f"what {text} means is known when the script runs only"
            raise Refusal(UNKNOWN_CALLER, self.reach.hidden[0], message, case="run time")
        for maker in self.reach.assumed:
            message = f"{self.facts.text(maker)} is taken for a model that these files define or import"
            self.plan.findings.append(self.facts.finding(maker, FOREIGN_CODE, message, case="model"))

    def _is_from_unknown_caller(self, node: cst.BaseExpression, passed_on: frozenset[Variable] = frozenset()) -> bool:
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
                    self._is_from_unknown_caller(given, passed_on | {one.origin})
                    for given in self.reach.possibly_given(one.origin)
                )
            )
            for one in sources
        )

    def _maker_out_of_sight(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """`experiment.builder.build` for a model that only such a method makes, of what nothing in the unit gives; or
        `make`, which is given itself.
        """
        sources = [one.source for one in self.facts.objects.objects(node)]
        makers = [one.origin.func for one in sources if one.kind == "call" and isinstance(one.origin, cst.Call)]
        out_of_sight = [
            maker
            for maker in makers
            if isinstance(maker, (cst.Name, cst.Attribute))
            if self._is_from_unknown_caller(maker.value if isinstance(maker, cst.Attribute) else maker)
        ]
        return out_of_sight[0] if out_of_sight and len(out_of_sight) == len(sources) else None

    def _check_sigmoids(self) -> None:
        """Other forms prove that the training survives half probabilities, a plain loop does not (rules E4, H4)."""
        for site in self.plan.bce:
            if not site.sigmoid_in_sight:
                text = self.facts.text(site.call.args[0].value if site.call.args else site.call)
                message = f"the sigmoid that makes {text} was not found, or half precision comes after it"
                raise Refusal(BCE_ON_PROBABILITIES, site.call, message)
