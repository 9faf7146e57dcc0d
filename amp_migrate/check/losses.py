"""Losses are scaled once."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.check.scalers import Scalers
from amp_migrate.check.violation import Violation, violation
from amp_migrate.facts import Facts


def check_losses(facts: Facts, scalers: Scalers) -> Iterator[Violation]:
    """`scaler.scale` of what is scaled already: the scaler divides only once."""
    for call, _ in facts.tree.every(cst.Call):
        if scalers.is_scaled(call) and any(scalers.is_scaled(arg.value) for arg in call.args):
            yield violation(facts, "scaled twice", call, "this loss is scaled already")
