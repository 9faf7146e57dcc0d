"""The names that an assignment sets, and which of them get half values."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.contents import ANY
from amp_migrate.interp.place import Keys, Place
from amp_migrate.interp.values import values_as_written
from amp_migrate.models.dtypes import HALF


def plain_names(target: cst.BaseExpression) -> list[str] | None:
    """The names of an assignment target; None where it sets anything else."""
    parts = _parts(target, ())
    return [name for name, _ in parts] if parts is not None else None


def names_of_halves(facts: Facts, node: cst.Assign) -> list[str]:
    """Those that may get half values; none where something other than names is set."""
    parts = _parts(node.targets[0].target, ()) or ()
    return [name for name, keys in parts if may_be_half(facts, Place(node.value, keys))]


def may_be_half(facts: Facts, place: Place) -> bool:
    """True for what is half under autocast as far as the code tells."""
    value = facts.analysis(values_as_written).at(place)
    return HALF in value.dtypes or not value.dtypes


def _parts(target: cst.BaseExpression, keys: Keys) -> list[tuple[str, Keys]] | None:
    """Each name, and the part of the value that it gets."""
    if isinstance(target, cst.Name):
        return [(target.value, keys)]
    if not isinstance(target, (cst.Tuple, cst.List)):
        return None
    found: list[tuple[str, Keys]] = []
    for place, element in enumerate(target.elements):
        is_exact = not any(isinstance(one, cst.StarredElement) for one in target.elements[: place + 1])
        parts = _parts(element.value, (*keys, place if is_exact else ANY))
        if parts is None:
            return None
        found += parts
    return found
