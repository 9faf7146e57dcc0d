"""What every writer of a part of a plan has at hand."""

from __future__ import annotations

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function
from amp_migrate.native.edits import Edits
from amp_migrate.native.spelling import Spellings
from amp_migrate.plan.training_plan import TrainingPlan


class Writer:
    """Writes a part of one plan as edits."""

    def __init__(self, facts: Facts, plan: TrainingPlan, spellings: Spellings, edits: Edits) -> None:
        self.facts = facts
        self.plan = plan
        self.spellings = spellings
        self.edits = edits

    def scaler(self, function: Function) -> str:
        """The scaler as a function sees it: `scaler`, `self.scaler`."""
        scaler = self.plan.scaler_for(function)
        expression = scaler.expression(function) if scaler is not None else None
        assert expression is not None, f"no scaler in {function.name}"
        return expression
