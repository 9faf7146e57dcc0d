"""The names that an assignment sets, and which of them get half values."""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.contents import ANY
from amp_migrate.facts.targets import targets_given
from amp_migrate.interp.place import Place
from amp_migrate.interp.values import values_as_written
from amp_migrate.models.dtypes import HALF


def plain_names(target: cst.BaseExpression) -> list[str] | None:
    """The names of an assignment target; None where it sets anything else."""
    targets = [one for one, _, _ in targets_given(target, None)]
    names = [one.value for one in targets if isinstance(one, cst.Name)]
    return names if len(names) == len(targets) else None


def names_of_halves(facts: Facts, node: cst.Assign) -> list[str]:
    """Those that may get half values; none where something other than names is set."""
    target = node.targets[0].target
    places = [
        Place(given, selector) if given is not None else Place(node.value, (ANY,))
        for _, given, selector in targets_given(target, node.value)
    ]
    return [name for name, place in zip(plain_names(target) or (), places, strict=False) if may_be_half(facts, place)]


def may_be_half(facts: Facts, place: Place) -> bool:
    """True for what is half under autocast as far as the code tells."""
    value = facts.analysis(values_as_written).at(place)
    return HALF in value.dtypes or not value.dtypes
