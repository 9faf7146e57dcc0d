"""The TrainingPlan as text: what was understood, and what will be written."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.plan.training_plan import Scaler, TrainingPlan
from amp_migrate.rules.source_forms import TITLES


def print_plans(facts: Facts, plans: list[TrainingPlan]) -> str:
    """One paragraph for each training, one line for each thing that it does, with line numbers."""
    return "\n".join(line for plan in plans for line in _Printer(facts, plan).lines())


class _Printer:
    def __init__(self, facts: Facts, plan: TrainingPlan) -> None:
        self.facts = facts
        self.plan = plan

    def lines(self) -> Iterator[str]:
        found = self.plan.found
        yield f"training plan ({TITLES[found.form]})"
        for setup in found.setups:
            models = ", ".join(self._text(node) for node in setup.models)
            optimizers = ", ".join(self._text(node) for node in setup.optimizers) or "none"
            yield f"  setup       {self._line(setup.call)}: models {models}; optimizers {optimizers}"
        for scaler in self.plan.scalers:
            yield f"  scaler      {self._scaler(scaler)}"
        for backward in found.backwards:
            how = "guarded" if backward.guard is not None else "always"
            how = "guard collapsed" if backward.collapsed else how
            yield f"  backward    {self._line(backward.loss)}: {self._text(backward.loss)} ({how})"
        for region in self.plan.regions:
            first, last = self._line(region.region.first.node), self._line(region.region.last.node)
            kind = "evaluation" if region.evaluation else "training"
            enabled = "always" if region.enabled is None else region.enabled
            yield f"  autocast    {first}-{last} in {region.region.function.name} ({kind}), enabled: {enabled}"
        for unscale in self.plan.steps.unscales:
            yield f"  unscale_    before {self._line(unscale.before.node)}: {unscale.text(self.facts)}"
        for use in self.plan.steps.micro_uses:
            yield f"  rescale     {self._line(use.node)}: {self._text(use.node)} runs on every micro-batch"
        for step in self.plan.steps.steps:
            yield f"  step        {self._line(step.call)}: {self._text(step.optimizer)}"
        for update in self.plan.steps.updates:
            yield f"  update      {'before' if update.before else 'after'} {self._line(update.at.node)}"
        for access in (*found.saves, *found.loads):
            yield f"  checkpoint  {self._line(access.node)}: {self._text(access.node)}"

    def _scaler(self, scaler: Scaler) -> str:
        places = [
            f"{creation.function.name}, {'before' if creation.before else 'after'} line {self._line(creation.at.node)}"
            for creation in scaler.binding.creations
        ]
        enabled = "always on" if scaler.enabled is None else f"enabled: {scaler.enabled}"
        given = [parameter.function.name for parameter in scaler.binding.parameters]
        passed = f"; passed to {', '.join(given)}" if given else ""
        name = scaler.expression(scaler.binding.creations[0].function)
        return f"{name} in {' and '.join(places)}; {enabled}{passed}"

    def _line(self, node: cst.CSTNode) -> int:
        return self.facts.line(node)

    def _text(self, node: cst.CSTNode) -> str:
        return " ".join(self.facts.text(node).split())
