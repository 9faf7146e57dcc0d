"""Calls that mean something else than they seem to say: reported, never changed.

`torch.amp.GradScaler(65536.0)` sets the device, `torch.amp.autocast("cuda", amp)` takes a bool for the dtype,
`torch.cuda.amp.GradScaler(amp)` for the initial scale.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Finding
from amp_migrate.rules.modernise import BOOL_AS_SCALE, DEVICE_MISSING, VALUE_AS_DEVICE, VALUE_AS_DTYPE

_SCALERS = ("torch.amp.GradScaler", "torch.GradScaler")
_AUTOCASTS = ("torch.amp.autocast", "torch.autocast")


def traps(facts: Facts) -> Iterator[Finding]:
    """The calls of native AMP with an argument in the wrong place."""
    for part in facts.tree.parents:
        if isinstance(part, cst.Call):
            dotted = facts.names.dotted(part.func) or ""
            positional = [arg.value for arg in part.args if arg.keyword is None and not arg.star]
            if dotted in _SCALERS and positional and _is_number(positional[0]):
                yield facts.finding(part, VALUE_AS_DEVICE, f"{facts.text(positional[0])} is given as the device")
            elif dotted.endswith(".GradScaler") and any(map(facts.values.is_bool, positional[:2])):
                yield facts.finding(part, BOOL_AS_SCALE, f"{facts.text(part)}: a bool is given as the initial scale")
            elif dotted in _AUTOCASTS:
                if len(positional) > 1 and facts.values.is_bool(positional[1]):
                    yield facts.finding(part, VALUE_AS_DTYPE, f"{facts.text(positional[1])} is given as the dtype")
                elif not _has_device(facts, part, positional):
                    yield facts.finding(part, DEVICE_MISSING, f"{facts.text(part)} names no device")


def _is_number(node: cst.BaseExpression) -> bool:
    value = literal_value(node)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _has_device(facts: Facts, call: cst.Call, positional: list[cst.BaseExpression]) -> bool:
    if positional:
        return not facts.values.is_bool(positional[0])
    return any(arg.star or (arg.keyword is not None and arg.keyword.value == "device_type") for arg in call.args)
