"""Switches for mixed precision that a plain training has, and that nothing reads: they decide it (rule B2).

def train(model, batches, use_amp=False):      enabled=use_amp
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.values import literal_value
from amp_migrate.plan.model import Condition
from amp_migrate.sources.half.arms import OF_PRECISION
from amp_migrate.sources.plain.losses import Loss
from amp_migrate.sources.plain.optimizers import Optimizers


def unread_switches(facts: Facts, optimizers: Optimizers, losses: list[Loss]) -> Iterator[Condition]:
    """The parameters of that kind of the functions that train, or that build what trains."""
    homes = [facts.tree.function_of(call) for call in optimizers.built]
    for function in dict.fromkeys([*(loss.statement.function for loss in losses), *homes]):
        for param in function.parameters:
            if OF_PRECISION.search(param.name.value) and _is_off_or_on(param) and not _is_read(facts, param):
                yield Condition(param.name, facts.conditions.compile(param.name))


def _is_off_or_on(param: cst.Param) -> bool:
    return param.default is not None and isinstance(literal_value(param.default), bool)


def _is_read(facts: Facts, param: cst.Param) -> bool:
    variable = facts.names.variable_at(param.name)
    return variable is None or bool(variable.loads) or len(variable.bindings) > 1
