"""What a backward differentiates: X of `X.backward()`, and X and Y of `torch.autograd.backward([X, Y])`."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts


def is_backward_of_torch(facts: Facts, call: cst.Call) -> bool:
    """True for `torch.autograd.backward(...)`."""
    return facts.names.dotted(call.func) == "torch.autograd.backward"


def differentiated(facts: Facts, call: cst.Call) -> list[cst.BaseExpression]:
    """The losses of a call of a backward, one for each element of a list."""
    if not is_backward_of_torch(facts, call):
        return [call.func.value] if isinstance(call.func, cst.Attribute) else []
    given = call.args[0].value if call.args else None
    if isinstance(given, (cst.List, cst.Tuple)):
        return [one.value for one in given.elements]
    return [given] if given is not None else []
