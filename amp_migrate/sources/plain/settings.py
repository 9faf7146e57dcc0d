"""Trainings that hydra makes of a file of settings, which alone names their class.

    trainer = hydra.utils.instantiate(config.trainer)          in one file
    class Trainer: ...                                         in another one, which nothing imports

Nobody in sight gives them a device: they are told, since they would be silent otherwise.
"""

from __future__ import annotations

from amp_migrate.facts import Facts
from amp_migrate.findings import Refusal
from amp_migrate.sources.plain.losses import Loss


def made_by_settings(facts: Facts, losses: list[Loss]) -> Refusal | None:
    """The first class that trains and that nothing in the unit makes, where another file asks hydra for objects."""
    for loss in losses:
        owner = loss.statement.function.owner
        if owner is None or any(facts.objects.makers.get(one) for one in facts.objects.derived(owner)):
            continue
        if facts.elsewhere.makes_by_settings:
            name = owner.node.name.value
            return Refusal(
                "AMP973", loss.call, f"hydra may make {name}: nothing in sight says on which device it trains"
            )
    return None
