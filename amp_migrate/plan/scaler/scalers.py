"""The scaler of a training: who needs it, where it is created, what it is called, and what it is set to."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from typing import Any

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement, by_function
from amp_migrate.findings import Refusal
from amp_migrate.plan.enabled_text import EnabledText, Unknown
from amp_migrate.plan.free_names import free_name
from amp_migrate.plan.model import LossScale, Recognition
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.scaler.asked_models import AskedModels
from amp_migrate.plan.scaler.binder import Binder
from amp_migrate.plan.scaler.binding import Binding, Creation
from amp_migrate.plan.scaler.carried import Hung
from amp_migrate.plan.scaler.enabling import Enabling
from amp_migrate.plan.scaler.loss_scales import one_loss_scale
from amp_migrate.plan.scaler.visible import Visible
from amp_migrate.plan.steps.placement import StepPlan
from amp_migrate.plan.training_plan import Scaler
from amp_migrate.rules.scaler import UNKNOWN_SCALER

Users = dict[Function, list[Statement]]


@dataclasses.dataclass
class Scalers:
    """What the scaler of a training follows from; `text` writes the condition of mixed precision."""

    facts: Facts
    found: Recognition
    dtype: str
    roles: Roles
    enabling: Enabling
    hung: Hung | None
    visible: Visible
    text: EnabledText
    steps: StepPlan
    regions: list[Region]

    def plan(self, tests: list[cst.BaseExpression]) -> list[Scaler]:
        """The scaler, or the flag that stands in its place; none where nobody needs one. The `tests` of a carrier stay
        in the program. Raises Refusal.
        """
        training = [setup for setup in self.found.setups if setup.optimizers]
        users = self._users(tests)
        is_blind = self._add_blind_regions(users)
        if not training or not users:
            return []
        loss_scale = one_loss_scale(self.facts, training)
        binding, enabled = self._bound(users, loss_scale)
        if self.dtype == "bfloat16":
            name = free_name(self.facts, "use_amp", "amp_enabled")
            return [Scaler(training, name, binding, enabled, LossScale(), is_flag=True)]
        loss_scale = self._settings_at(binding.creations, loss_scale)
        name = free_name(self.facts, "scaler", "grad_scaler", "amp_scaler")
        scaler = Scaler(training, name, binding, enabled, loss_scale)
        if loss_scale.runtime is not None:
            scaler.scale_name = free_name(self.facts, "loss_scale", "static_loss_scale")
            scaler.updating = self._updating(binding)
        if is_blind and not self.text.follows_scaler(loss_scale):
            scaler.flag_name = free_name(self.facts, "use_amp", "amp_enabled")
        if binding.carriers and not binding.taken_up and len(scaler.names) > 1:
            message = "a loss scale of its own cannot travel where the source's handle did"
            raise Refusal(UNKNOWN_SCALER, training[0].call, message)
        return [scaler]

    def _users(self, tests: list[cst.BaseExpression]) -> Users:
        """The functions that name the scaler, with the statements that do."""
        found, steps = self.found, self.steps
        asking = [self.facts.tree.statement_of(test) for test in tests]
        if self.dtype == "bfloat16":
            return by_function(asking)
        statements = [backward.statement for backward in found.backwards]
        statements += [unscale.before for unscale in steps.unscales]
        statements += [update.at for update in steps.updates]
        statements += [step.statement for step in steps.steps]
        statements += [use.statement for use in steps.micro_uses]
        statements += [access.statement for access in (*found.saves, *found.loads)]
        statements += [one.statement for one in found.added]
        statements += [read.statement for read in found.scale_reads]
        statements += [one.statement for one in found.handed]
        return by_function([*statements, *asking])

    def _add_blind_regions(self, users: Users) -> bool:
        """Regions whose function does not know the condition have to be told; True where there are any."""
        texts = ((region, self.text.in_function(region.function, region.first)) for region in self.regions)
        blind = [region for region, text in texts if isinstance(text, Unknown)]
        for region in blind:
            users.setdefault(region.function, []).append(region.first)
        return bool(blind)

    def _asks_parameters(self, region: Region) -> bool:
        """True where the condition, as it is written at a region, reads a parameter of its function."""
        function = region.function
        written = self.text.in_function(function, region.first)
        names = {param.name.value for param in function.parameters}
        return isinstance(written, str) and any(
            isinstance(part, ast.Name) and part.id in names for part in ast.walk(ast.parse(written, mode="eval"))
        )

    def _bound(self, users: Users, loss_scale: LossScale) -> tuple[Binding, str | None]:
        """How its users get the scaler, and its condition: as the program has it, else as the models are asked for."""
        try:
            return self._bound_by(self.text, users, loss_scale)
        except Refusal as refusal:
            try:
                return self._bound_by(self.text.asking(AskedModels(self.facts, self.roles)), users, loss_scale)
            except Refusal:
                raise refusal from None

    def _bound_by(self, text: EnabledText, users: Users, loss_scale: LossScale) -> tuple[Binding, str | None]:
        asking = {region.function for region in self.regions if self._asks_parameters(region)}

        def can_create(function: Function) -> bool:
            return self._knows_settings(function, loss_scale) and text.can_be_on(function)

        binder = Binder(self.facts, self.found, self.roles, self.enabling, users, asking, can_create, self.hung)
        found = binder.bind()
        asked = by_function([*itertools.chain(*users.values()), *(region.first for region in self.regions)])
        found.creations = [binder.creations.settled(one, text.is_known_at, asked) for one in found.creations]
        return found, self._enabled_at(found.creations, text)

    def _updating(self, binding: Binding) -> frozenset[Function]:
        """The functions that are given the scaler and lead to an update of it, or keep it for methods that do."""
        updating = {update.at.function for update in self.steps.updates}
        keeping = {statement.function for statement, _ in binding.taken_up}
        return frozenset(
            one.function
            for one in binding.parameters
            if self._leads_to(one.function, updating)
            or (one.function in keeping and self._is_kept_for(one.function, updating))
        )

    def _is_kept_for(self, init: Function, updating: set[Function]) -> bool:
        """True for the constructor of what updates the scaler in its methods, with an instance or without."""
        below = self.facts.objects.derived(init.owner) if init.owner is not None else ()
        return any((one.method or one).owner in below for one in updating)

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
                raise Refusal(UNKNOWN_SCALER, creation.at.node, message, case="condition")
        return enabled

    def _leads_to(self, function: Function, targets: set[Function]) -> bool:
        inner = [one for one in self.facts.tree.functions if one is function or function.encloses(one)]
        return any(self.facts.calls.reaches(one, targets.__contains__) for one in inner)

    def _settings_at(self, creations: list[Creation], scale: LossScale) -> LossScale:
        """The settings of the loss scale as they are written where the scaler is created. Raises Refusal."""
        written: dict[str, Any] = {}
        for field in ("runtime", "initial", "dynamic_when", "used_when", "growth_interval", "growth_factor"):
            node = getattr(scale, field)
            if node is None:
                continue
            texts = {self.visible.express(node, one.function, one.follower) for one in creations}
            text = texts.pop() if len(texts) == 1 else None
            if text is None:
                message = f"{self.facts.text(node)} is not known where the scaler has to be created"
                raise Refusal(UNKNOWN_SCALER, node, message, case="condition")
            written[field] = node if text == self.facts.text(node) else cst.parse_expression(text)
        return dataclasses.replace(scale, **written)
