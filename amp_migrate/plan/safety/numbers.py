"""The numbers that an expression may be, and which of them half cannot hold."""

from __future__ import annotations

import math
import sys
from functools import partial

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.each_once import each_once
from amp_migrate.facts.tree import called_name
from amp_migrate.facts.values import literal_value
from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Step
from amp_migrate.interp.steps import Steps
from amp_migrate.models import traits

LARGEST = 65504.0
# Half of the smallest positive half number: rounded to even, it is zero.
VANISHING = 2.0**-25
# Half of the distance from 1 to the half number below it.
_BELOW_ONE = 2.0**-12
_FLOAT32 = 3.4028234663852886e38


def numbers(facts: Facts, node: cst.BaseExpression) -> list[float]:
    """The values of an expression that is a number, or None, wherever it is given one in the unit; else none."""
    found = []
    for place, sign in each_once([(Place(node), 1)], partial(_values, facts)):
        value = _number(place.node)
        if value is not None:
            found.append(sign * value)
        elif not _values(facts, (place, sign)) and not _is_nothing(facts, place):
            return []
    return found


def _values(facts: Facts, signed: tuple[Place, int]) -> list[tuple[Place, int]]:
    """What a name, a choice or a conversion that is no number itself may be, with the sign that it gets there."""
    (place, sign), node = signed, signed[0].node
    if _number(node) is not None:
        return []
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        return [(Place(node.expression, place.keys, place.frames), -sign)]
    if isinstance(node, cst.Call):
        dotted = facts.names.dotted(node.func) or ""
        is_converted = isinstance(node.func, cst.Name) and node.func.value in ("float", "int")
        if is_converted or dotted.startswith(("numpy.float", "numpy.int")):
            return [(Place(arg.value, place.keys, place.frames), sign) for arg in node.args[:1]]
        if dotted.startswith("numpy.") or called_name(node) in traits.named("function of Python"):
            return []  # `np.log(1e-14)` is another number than what it is given
    return [(one, sign) for one in facts.analysis(Steps).of(place).same]


def _is_nothing(facts: Facts, place: Place) -> bool:
    """True for None, and for a key that a container does not have."""
    return literal_value(place.node) is None or facts.analysis(Steps).of(place) == Step()


def overflows(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for a finite number beyond the largest of half."""
    return any(math.isfinite(value) and abs(value) > LARGEST for value in numbers(facts, node))


def is_read(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for a number that only run time knows, such as one of a configuration file."""
    ways = each_once([(Place(node), 1)], partial(_values, facts))
    lost = [one.node for one, _ in ways if facts.analysis(Steps).of(one).is_lost and _number(one.node) is None]
    return any(facts.names.dotted(one) is None and "finfo" not in facts.text(one) for one in lost)


def magnifies(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for a factor such as the 1000 from metres to millimetres: times 256, half is infinite."""
    return any(256 <= abs(value) < math.inf for value in numbers(facts, node))


def vanishes(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for a positive number that half rounds to zero."""
    return any(0 < value <= VANISHING for value in numbers(facts, node))


def becomes_one(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for a number that half rounds up to 1, such as the 1 - 1e-4 that keeps a logarithm finite."""
    return any(1 - _BELOW_ONE <= value < 1 for value in numbers(facts, node))


def is_one(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for what is 1 or -1 in half."""
    return any(1 - _BELOW_ONE <= abs(value) <= 1 + 2 * _BELOW_ONE for value in numbers(facts, node))


def _number(node: cst.BaseExpression) -> float | None:
    value = literal_value(node)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(node, cst.Attribute) and node.attr.value in ("min", "max") and isinstance(node.value, cst.Call):
        if called_name(node.value) == "finfo" and _is_float32(node.value):
            return -_FLOAT32 if node.attr.value == "min" else _FLOAT32
    return float(sys.maxsize) if _is_maxsize(node) else None


def _is_maxsize(node: cst.BaseExpression) -> bool:
    holder = node.value if isinstance(node, cst.Attribute) and node.attr.value == "maxsize" else None
    return isinstance(holder, cst.Name) and holder.value == "sys"


def _is_float32(call: cst.Call) -> bool:
    """`torch.finfo(torch.float32)`, `np.finfo(np.float32)`: not the dtype of the tensor at hand."""
    value = call.args[0].value if call.args else None
    is_float32 = isinstance(value, cst.Attribute) and value.attr.value in ("float32", "float")
    return is_float32 or (value is not None and literal_value(value) == "float32")
