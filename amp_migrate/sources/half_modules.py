"""Casts of trained modules to half beside apex.amp: GradScaler takes no half gradients, so they go (rule G2).

model.half()                            goes, also after a save, and in each epoch
m.eval().half()                         m.eval(), in what `model.apply` runs on BatchNorm, or a walk over its modules

What stays is inference: the cast of a copy, one that is undone, and one that no training step follows.
"""

from __future__ import annotations

from amp_migrate.facts import Facts
from amp_migrate.plan.model import Recognition
from amp_migrate.sources.half.helpers import calls_of_emptied, without_use
from amp_migrate.sources.half.kept import Kept
from amp_migrate.sources.half.module_casts import ModuleCasts, receiver_of
from amp_migrate.sources.half.modules import Modules
from amp_migrate.sources.optimizers import find_optimizers
from amp_migrate.vocabulary import SAYS_HALF


def lower_half_modules(facts: Facts, found: Recognition) -> None:
    """Give a Recognition of apex.amp the lowering that takes such casts out, where it has some."""
    if not found.backwards or not facts.says(SAYS_HALF):
        return
    modules = Modules(facts, find_optimizers(facts), [model for setup in found.setups for model in setup.models])
    casts = ModuleCasts(facts, modules, Kept(facts), facts.tree.all_statements(), {})
    for statement, call in casts.going():
        if modules.is_trained(receiver_of(call)):
            casts.lower(statement, call)
    if casts.lowering.is_empty:
        return
    removed = casts.lowering.removed
    removed += calls_of_emptied(facts, removed)
    removed += without_use(facts, casts.gone, removed)
    found.lowering = casts.lowering
    found.sites += casts.sites
