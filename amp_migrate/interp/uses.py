"""What the use of a value shows of it."""

from __future__ import annotations

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.models.queries import takes_two

_CONTAINERS = (str, list, tuple, dict, set)


def shows_tensor(facts: Facts, load: cst.BaseExpression) -> bool:
    """True for a use that only tensors allow: `x.softmax(1)`, `torch.exp(x)`, `x[:, 1]`."""
    parent = facts.tree.parents.get(load)
    if isinstance(parent, cst.Subscript):
        is_part = parent.value is load and len(parent.slice) > 1
        return is_part and any(isinstance(one.slice, cst.Slice) for one in parent.slice)
    if isinstance(parent, cst.Attribute) and parent.value is load:
        name = parent.attr.value
        row = models.method(name)
        is_called = facts.tree.call_of(parent) is not None
        is_of_others = any(hasattr(one, name) for one in _CONTAINERS)  # `split`, `values`
        return row is not None and (row.kind == "property") != is_called and not is_of_others
    call = facts.tree.taker(load)
    if call is None or not isinstance(parent, cst.Arg):
        return False
    operation = models.function(facts.names.dotted(call.func) or "")
    place = call.args.index(parent)
    if operation is None and isinstance(call.func, cst.Attribute):
        operation, place = models.method(call.func.attr.value), place + 1  # behind the tensor itself
    if operation is None or operation.is_a("list") or not operation.inputs:  # `torch.arange(x)`
        return False
    return place == (0 if operation.kind == "function" else -1) or (place == operation.second and takes_two(operation))
