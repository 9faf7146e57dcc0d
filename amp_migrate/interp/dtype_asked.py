"""The dtype that a call names for its result.

x.to(torch.float32)    x.type_as(y)    x.to(y)    x.to(y.dtype)    torch.zeros(n, dtype=torch.half)
x.type("torch.HalfTensor")
torch.from_numpy(a.astype(np.float32))
"""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate import models
from amp_migrate.facts import Facts
from amp_migrate.facts.implied import implied
from amp_migrate.facts.tree import argument_value, called_name
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.interp.place import Frames, Place
from amp_migrate.models import Dtype
from amp_migrate.models.dtype_names import dtype_named, dtype_of_array

_OF_DATA = ("torch.tensor", "torch.as_tensor")
_GUESSED = re.compile(r"device|cuda|gpu|cpu|rank")
_ANY_FLOAT = frozenset((Dtype.HALF, Dtype.SINGLE))


def dtype_asked(facts: Facts, call: cst.Call, frames: Frames) -> frozenset[Dtype] | Place | None:
    """The dtypes that a call may ask for, or the tensor whose dtype it asks for; None where it asks for none."""
    given = argument_value(call, "dtype")
    if given is not None:
        return _meant(facts, given, frames) or _ANY_FLOAT
    if isinstance(call.func, cst.Attribute) and facts.names.dotted(call.func) in _OF_DATA and call.args:
        return _of_data(call.args[0].value)
    if facts.names.dotted(call.func) == "torch.from_numpy" and call.args:
        return _of_array(facts, call.args[0].value)
    if called_name(call) == "type_as" and call.args:
        return Place(call.args[0].value, (), frames)
    row = models.method(called_name(call)) if isinstance(call.func, cst.Attribute) else None
    if row is not None and row.by_argument:
        meant = [_meant(facts, arg.value, frames) for arg in call.args if not arg.star]
        asked = next((one for one in meant if one is not None), None)
        others = [one.value for one in call.args if one.keyword is None and not _is_device(facts, one.value)]
        return asked if asked is not None or not others else Place(others[0], (), frames)
    return None


def _of_data(node: cst.BaseExpression) -> frozenset[Dtype] | None:
    """The dtype of `torch.tensor(-1e9)` and `torch.tensor([0, 1])`, where it is written out."""
    if isinstance(node, (cst.List, cst.Tuple)):
        found = {_of_data(one.value) for one in node.elements}
        return found.pop() if len(found) == 1 else None
    value = literal_value(node)
    kinds = {float: Dtype.SINGLE, int: Dtype.INTEGER, bool: Dtype.BOOLEAN}
    return frozenset((kinds[type(value)],)) if type(value) in kinds else None


def _of_array(facts: Facts, node: cst.BaseExpression) -> frozenset[Dtype] | None:
    """The dtypes that NumPy has been asked for, where every value of the array says one."""
    values = facts.objects.values_of(node) if isinstance(node, (cst.Name, cst.Attribute)) else [node]
    found = {_of_one_array(facts, one) for one in values}
    return frozenset(one for one in found if one is not None) if found and None not in found else None


def _of_one_array(facts: Facts, node: cst.BaseExpression) -> Dtype | None:
    if not isinstance(node, cst.Call):
        return None
    converts = isinstance(node.func, cst.Attribute) and called_name(node) == "astype"
    given = argument_value(node, "dtype", 0 if converts else None)
    text = literal_value(given) if given is not None else UNKNOWN
    if isinstance(text, str):
        return dtype_of_array(text)
    return dtype_of_array(facts.names.dotted(given if given is not None else node.func) or "builtins.")


def _is_device(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for a device, and for what its name says to be one, which is a guess."""
    return literal_value(node) is not UNKNOWN or _GUESSED.search(facts.text(node).lower()) is not None


def _meant(facts: Facts, node: cst.BaseExpression, frames: Frames) -> frozenset[Dtype] | Place | None:
    text = literal_value(node)
    dtype = dtype_named(text if isinstance(text, str) else facts.names.dotted(node) or "")
    if dtype is not None:
        return frozenset((dtype,))
    if isinstance(node, cst.Attribute) and node.attr.value == "dtype":
        return Place(node.value, (), frames)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and called_name(node) == "type":
        return Place(node.func.value, (), frames) if not node.args else None  # `x.type(y.type())`
    return None


def asks_for_half(facts: Facts, test: cst.BaseExpression) -> bool:
    """True for `x.type() == "torch.cuda.HalfTensor"` and `x.dtype is torch.half`, whatever else is asked besides."""
    return any(holds and _compares_with_half(facts, part) for part, holds in implied(test, True))


def _compares_with_half(facts: Facts, test: cst.BaseExpression) -> bool:
    if not isinstance(test, cst.Comparison) or not isinstance(test.comparisons[0].operator, (cst.Equal, cst.Is)):
        return False
    sides = [_meant(facts, one, ()) for one in (test.left, test.comparisons[0].comparator)]
    return frozenset((Dtype.HALF,)) in sides and any(isinstance(one, Place) for one in sides)
