"""Which operation of the table a call is, and what it is given."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name
from amp_migrate.models import Operation

# Keywords that name a tensor, in torch's own signatures.
_TENSORS = frozenset(
    "input other tensor1 tensor2 weight bias source src end mat1 mat2 vec vec1 vec2 x1 x2 target".split()
)
_LISTS = ("tensors",)
# Where a name that no import explains is probably torch's: `from common import *`.
_NAMESPACES = ("torch.", "torch.nn.functional.")


def operation(facts: Facts, call: cst.Call) -> Operation | None:
    """The row of a function or method of torch; a name of unknown origin is looked up by itself."""
    func, name = call.func, called_name(call)
    dotted = facts.names.dotted(func)
    if dotted is not None:
        row = models.function(dotted)
        return row if row is not None and row.kind != "layer" else None  # of a layer it makes no tensor
    if isinstance(func, cst.Attribute):
        if is_of_module(facts, func):
            return _function(name)
        row = models.method(name) or _function(name)
        # A module is no tensor: the name alone may say that something is half, and never that it is not.
        is_of_self = isinstance(func.value, cst.Name) and func.value.value == "self"
        return row if row is None or not is_of_self or row.policy == "half" else None
    return _function(name) if isinstance(func, cst.Name) and facts.names.variable_at(func) is None else None


def _function(name: str) -> Operation | None:
    rows = (models.function(front + name) for front in _NAMESPACES)
    return next((row for row in rows if row is not None and row.kind == "function"), None)


def operands(facts: Facts, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """The receiver of a method, positional arguments, the elements of lists of tensors, and tensors by keyword."""
    if isinstance(call.func, cst.Attribute) and not is_of_module(facts, call.func):
        yield call.func.value
    for arg in call.args:
        if arg.star or (arg.keyword is not None and arg.keyword.value not in (*_TENSORS, *_LISTS)):
            continue
        if isinstance(arg.value, (cst.List, cst.Tuple)):
            yield from (element.value for element in arg.value.elements)
        else:
            yield arg.value


def tensor_operand(facts: Facts, call: cst.Call) -> cst.BaseExpression | None:
    """The tensor that an operation is about: X of `torch.exp(X)`, `F.relu(X)` and `X.exp()`."""
    if isinstance(call.func, cst.Attribute) and not is_of_module(facts, call.func):
        return call.func.value
    first = next((arg for arg in call.args if not arg.star), None)
    return first.value if first is not None and (first.keyword is None or first.keyword.value == "input") else None


def is_of_module(facts: Facts, func: cst.Attribute) -> bool:
    """True for `torch.exp` and `F.relu`: the attribute of an imported module, not the method of a tensor."""
    return facts.names.dotted(func.value) is not None or facts.text(func.value) in ("torch", "F")
