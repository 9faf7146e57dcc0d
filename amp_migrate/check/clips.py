"""Whose gradients a clip clips."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.check.scalers import Scalers
from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object
from amp_migrate.facts.tree import walk

_PARAMETERS = frozenset(("parameters", "named_parameters"))


def clipped(facts: Facts, scalers: Scalers, clip: cst.Call) -> set[str]:
    """The optimizers that were made of the parameters that a clip names, or whose groups it names; empty where it names
    others: a part of them, or what they are a part of.
    """
    named = set(_named(facts, clip))
    found = set()
    for key in scalers.optimizers:
        known = scalers.objects_of(key)
        makers = [one.origin for one in known if isinstance(one.origin, cst.Call)]
        if named & known or any(named & set(_named(facts, maker)) for maker in makers):
            found.add(key)
    return found


def _named(facts: Facts, call: cst.Call) -> Iterator[Object]:
    """The models whose parameters the first argument of a call holds, and the optimizers whose groups it holds."""
    given = [arg.value for arg in call.args[:1]]
    values = [
        value for one in given if isinstance(one, (cst.Name, cst.Attribute)) for value in facts.objects.values_of(one)
    ]
    for part in (part for one in [*given, *values] for part in walk(one)):
        if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute) and part.func.attr.value in _PARAMETERS:
            yield from facts.objects.objects(part.func.value)
        elif isinstance(part, cst.Attribute) and part.attr.value == "param_groups":
            yield from facts.objects.objects(part.value)
