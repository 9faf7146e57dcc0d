"""The plan of a unit: everything that the back end writes, decided before anything is written."""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts.tree import Function
from amp_migrate.findings import Finding
from amp_migrate.plan.arms import Collapse
from amp_migrate.plan.model import LossScale, Recognition, Setup
from amp_migrate.plan.parameters import Parameters
from amp_migrate.plan.regions.bce import BceSite
from amp_migrate.plan.regions.logits import Logits
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.safety.repairs import Safety
from amp_migrate.plan.scaler.binding import Binding
from amp_migrate.plan.scaler.enabling import Enabling
from amp_migrate.plan.shared_backwards import SharedBackward
from amp_migrate.plan.steps.placement import StepPlan
from amp_migrate.plan.steps.skips import SkipTest


@dataclasses.dataclass(eq=False)
class Scaler:
    """One GradScaler: what it serves, where it lives, and its settings as source text.

    `enabled` is None where it is always on. `scale_name` names the variable that holds a loss scale known at
    run time only, `flag_name` the one that says whether autocast is on where the scaler cannot (a static
    scale of 1.0 switches the scaler off alone). With `is_flag`, there is no scaler (bfloat16): `name` is that
    flag itself. `updating` are the functions with a new parameter that update the scaler, or lead to where it is done.
    """

    setups: list[Setup]
    name: str
    binding: Binding
    enabled: str | None
    loss_scale: LossScale
    scale_name: str | None = None
    flag_name: str | None = None
    is_flag: bool = False
    updating: frozenset[Function] = frozenset()

    @property
    def names(self) -> list[str]:
        """The variables that travel together."""
        return [name for name in (self.name, self.scale_name, self.flag_name) if name is not None]

    def names_for(self, function: Function) -> list[str]:
        """Those that a function gets: a static loss scale is for who updates the scaler."""
        return [name for name in self.names if name != self.scale_name or function in self.updating]

    def is_on(self, function: Function) -> str | None:
        """How a function asks whether mixed precision is on."""
        if self.flag_name is not None:
            return self.binding.expression(function, self.flag_name)
        expression = self.expression(function)
        return expression if self.is_flag or expression is None else f"{expression}.is_enabled()"

    def expression(self, function: Function) -> str | None:
        """How a function reads the scaler; None where it cannot see it."""
        return self.binding.expression(function, self.name)


@dataclasses.dataclass(eq=False)
class AutocastRegion:
    """A region, the text of its `enabled` argument (None: always on), what it is for, and if it keeps casts."""

    region: Region
    enabled: str | None
    evaluation: bool = False
    cached: bool = True


@dataclasses.dataclass(eq=False)
class TrainingPlan:
    """What one unit does about training precision, and how it will be written."""

    found: Recognition
    enabling: Enabling
    roles: Roles
    parameters: Parameters
    collapses: list[Collapse]
    steps: StepPlan
    regions: list[AutocastRegion]
    scalers: list[Scaler]
    findings: list[Finding]
    carrier_tests: list[cst.BaseExpression]
    clips_of_scaled: list[cst.Call]
    bce: list[BceSite]
    logits: Logits = dataclasses.field(default_factory=Logits)
    safety: Safety = dataclasses.field(default_factory=Safety)
    skips: list[SkipTest] = dataclasses.field(default_factory=list)
    shared_backwards: list[SharedBackward] = dataclasses.field(default_factory=list)

    def scaler_for(self, function: Function) -> Scaler | None:
        """The scaler that a function sees."""
        return next((scaler for scaler in self.scalers if scaler.expression(function) is not None), None)
