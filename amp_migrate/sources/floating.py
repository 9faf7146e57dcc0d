"""Tensors that are certainly in float32, where a cast to half by hand was the only one: without it they are what they
are (rule G1).

    batches = [(torch.randn(16, 8), torch.randint(0, 2, (16,))) for _ in range(10)]
    for rows, labels in batches:
        model(rows.cuda().half())        of `rows`, not of `labels`
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import trace
from amp_migrate.interp.step import Made
from amp_migrate.interp.steps import Steps
from amp_migrate.models import Operation
from amp_migrate.models.queries import keeps_dtype


def is_floating(facts: Facts, value: cst.BaseExpression) -> bool:
    """True where nothing but new tensors of float32, and what has their dtype, makes a value."""
    steps = facts.analysis(Steps)
    ways = trace(steps, Place(value), _keeps)
    if ways.open or not ways.ends or not all(map(_is_new, ways.ends)):
        return False
    return not any(steps.of(place).is_constant or _is_given_by_others(facts, place) for place in ways.places)


def _keeps(row: Operation) -> bool:
    """Moves what it is given, or computes with it alone, in its dtype."""
    return (row.shape_only or (row.inputs == 1 and keeps_dtype(row))) and not row.by_argument


def _is_new(made: Made) -> bool:
    """True for `torch.randn(16, 8)`, whose dtype nobody names, and for `x.float()`."""
    row = made.operation
    is_factory = row is not None and row.result == "single" and row.kind != "layer"
    has_stars = isinstance(made.node, cst.Call) and any(arg.star == "**" for arg in made.node.args)
    return is_factory and made.cast is None and not has_stars


def _is_given_by_others(facts: Facts, place: Place) -> bool:
    """True for a parameter of a function that somebody out of sight may call: with anything."""
    variable = facts.names.variable_at(place.node)
    if variable is None or all(one.kind != "param" for one in variable.bindings):
        return False
    function = variable.scope.owner
    if not isinstance(function, Function):
        return False
    return facts.is_used_outside(function) or bool(facts.calls.value_uses(function))
