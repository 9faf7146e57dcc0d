"""All rules by their codes, in the order of these: for who only has a code."""

from __future__ import annotations

from amp_migrate.rules import (
    apex,
    beside,
    companions,
    files,
    fp16_utils,
    half,
    judging,
    modernise,
    native,
    plain,
    regions,
    safety,
    scaler,
    steps,
    units,
)
from amp_migrate.rules.rule import Rule

_THEMES = (
    apex,
    beside,
    companions,
    files,
    fp16_utils,
    half,
    judging,
    modernise,
    native,
    plain,
    regions,
    safety,
    scaler,
    steps,
    units,
)
_ALL = [rule for theme in _THEMES for rule in vars(theme).values() if isinstance(rule, Rule)]

RULES = {rule.code: rule for rule in sorted(_ALL, key=lambda rule: rule.code)}
