"""The tensor that a call is about, as it is written."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts


def tensor_operand(facts: Facts, call: cst.Call) -> cst.BaseExpression | None:
    """The tensor that an operation is about: X of `torch.exp(X)`, `F.relu(X)` and `X.exp()`."""
    if isinstance(call.func, cst.Attribute) and not _is_of_module(facts, call.func):
        return call.func.value
    first = next((arg for arg in call.args if not arg.star), None)
    return first.value if first is not None and (first.keyword is None or first.keyword.value == "input") else None


def _is_of_module(facts: Facts, func: cst.Attribute) -> bool:
    """True for `torch.exp` and `F.relu`: the attribute of an imported module, not the method of a tensor."""
    return facts.names.dotted(func.value) is not None or facts.text(func.value) in ("torch", "F")
