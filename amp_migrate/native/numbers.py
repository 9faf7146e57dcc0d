"""Loss scales as text."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.values import literal_value


def number_text(value: float) -> str:
    """`128.0`."""
    return repr(float(value))


def float_text(facts: Facts, node: cst.BaseExpression) -> str:
    """`scaler.update()` takes floats only."""
    value = literal_value(node)
    if isinstance(value, (int, float)):
        return facts.text(node) if isinstance(value, float) else number_text(value)
    return f"float({facts.text(node)})"
