"""Trainings in one file that have nothing to do with each other are planned one by one.

A file with `train_a()` and `train_b()`, each with its own `amp.initialize`, loop and checkpoint, needs a
scaler in each; their guards need not even agree.
"""

from __future__ import annotations

import dataclasses

from amp_migrate.facts.tree import Function, Statement
from amp_migrate.plan.model import Recognition


def split_recognition(found: Recognition) -> list[Recognition]:
    """The independent parts of what was found; the whole where its parts share anything."""
    homes: list[Function] = []
    for setup in found.setups:
        home = setup.statement.function
        if setup.optimizers and home not in homes:
            homes.append(home)
    if len(homes) < 2 or not _stand_apart(homes, _places(found)):
        return [found]
    return [_part(found, home, first=home is homes[0]) for home in homes]


def _places(found: Recognition) -> list[Statement]:
    return [
        *(setup.statement for setup in found.setups),
        *(backward.statement for backward in found.backwards),
        *(access.statement for access in found.parameters),
        *(access.statement for access in (*found.saves, *found.loads)),
        *(read.statement for read in found.scale_reads),
    ]


def _stand_apart(homes: list[Function], places: list[Statement]) -> bool:
    return all(sum(home.encloses(place.function) for home in homes) == 1 for place in places)


def _part(found: Recognition, home: Function, *, first: bool) -> Recognition:
    """What lies in one function; things of the whole file go with the first part."""

    def own(statement: Statement) -> bool:
        return home.encloses(statement.function)

    return dataclasses.replace(
        found,
        setups=[one for one in found.setups if own(one.statement)],
        backwards=[one for one in found.backwards if own(one.statement)],
        parameters=[one for one in found.parameters if own(one.statement)],
        saves=[one for one in found.saves if own(one.statement)],
        loads=[one for one in found.loads if own(one.statement)],
        scale_reads=[one for one in found.scale_reads if own(one.statement)],
        no_casts=found.no_casts if first else [],
        removed=found.removed if first else [],
        findings=found.findings if first else [],
    )
