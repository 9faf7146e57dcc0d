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


def half_names(facts: Facts, node: cst.Assign) -> list[str]:
    """Those that may get half values; none where something other than names is set."""
    values = facts.analysis(values_as_written)
    found = []
    for name, keys in _parts(node.targets[0].target, ()) or ():
        value = values.at(Place(node.value, keys))
        if HALF in value.dtypes or not value.dtypes:
            found.append(name)
    return found


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
