"""Autocast regions."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.check.scalers import Scalers
from amp_migrate.check.violation import Violation, violation
from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.tree import Statement


def autocast_items(facts: Facts, statement: Statement) -> Iterator[cst.Call]:
    """The autocast calls among the items of a `with` that can switch it on."""
    if isinstance(statement.node, cst.With):
        for item in statement.node.items:
            call = item.item
            if isinstance(call, cst.Call) and (facts.names.dotted(call.func) or "").split(".")[-1] == "autocast":
                if all(source_key(value) != "False" for value in enabled_of(facts, call)):
                    yield call


def enabled_of(facts: Facts, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """The `enabled` of an autocast: by keyword, or first in torch.cuda.amp and torch.cpu.amp."""
    is_first = (facts.names.dotted(call.func) or "").split(".")[-2:] == ["amp", "autocast"]
    by_device = (facts.names.dotted(call.func) or "").startswith(("torch.cuda.", "torch.cpu."))
    for number, arg in enumerate(call.args):
        if arg.keyword is not None:
            is_enabled = arg.keyword.value == "enabled"
        else:
            is_enabled = number == 0 and is_first and by_device
        if is_enabled:
            yield arg.value


# Losses are scaled once.


def check_losses(facts: Facts, scalers: Scalers) -> Iterator[Violation]:
    """`scaler.scale` of what is scaled already: the scaler divides only once."""
    for call, _ in facts.tree.every(cst.Call):
        if scalers.is_scaled(call) and any(scalers.is_scaled(arg.value) for arg in call.args):
            yield violation(facts, "scaled twice", call, "this loss is scaled already")
