"""What a backward differentiates: X of `X.backward()`, and X and Y of `torch.autograd.backward([X, Y])`."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name


def is_backward_of_torch(facts: Facts, call: cst.Call) -> bool:
    """True for `torch.autograd.backward(...)`."""
    return facts.names.dotted(call.func) == "torch.autograd.backward"


def is_backward(facts: Facts, call: cst.Call) -> bool:
    """True for `loss.backward()`, and for the function of torch by whatever name ends in its own."""
    if called_name(call) != "backward":
        return False
    return isinstance(call.func, cst.Attribute) or is_backward_of_torch(facts, call)


def differentiated(facts: Facts, call: cst.Call) -> list[cst.BaseExpression]:
    """The losses of a call of a backward, one for each element of a list."""
    if not is_backward_of_torch(facts, call):
        return [call.func.value] if isinstance(call.func, cst.Attribute) else []
    given = call.args[0].value if call.args else None
    if isinstance(given, (cst.List, cst.Tuple)):
        return [one.value for one in given.elements]
    return [given] if given is not None else []
