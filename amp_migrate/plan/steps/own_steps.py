"""Steps that an optimizer of the script's own makes by itself.

    class Plateau(torch.optim.Optimizer):
        def step(self):
            self.optimizer.step()          stays: scaler.step(plateau) calls it

What a GradScaler steps is unscaled and looked at before its `step` runs, whatever that does.
"""

from __future__ import annotations

from amp_migrate.facts import Facts
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.tree import Statement


def is_own_step(facts: Facts, statement: Statement, optimizers: ObjectSet) -> bool:
    """True in the method `step` of a class whose instances are among the optimizers that a scaler steps."""
    owner = statement.function.owner
    if owner is None or not statement.function.is_method or statement.function.name != "step":
        return False
    return facts.objects.object_of("instance", facts.objects.root_class(owner)) in optimizers
