"""Trainings in which autocast would change nothing: sums of embeddings, distances, products of sparse matrices.

score = (head + relation - tail).norm(dim=1)          no operation of CUDA autocast's list for half

Whatever is not known for certain may run in half: only names that torch itself gives are looked at.
"""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate import models
from amp_migrate.facts.tree import Class, Function, called_name
from amp_migrate.models.queries import may_compute_in_half
from amp_migrate.plan.safety.context import Context
from amp_migrate.rules.safety import NOTHING_IN_HALF

_OF_PYTHON = re.compile(r"(?:math|random|time|datetime|numpy|os|logging|collections|itertools|functools)(?:\.|$)")
# Methods of containers, and those that ask a tensor for its parts.
_OF_PARTS = frozenset("append extend insert pop update items keys values get join format indices coalesce".split())


def note_what_stays_in_float32(context: Context) -> None:
    """Says it where nothing under autocast would be computed in half."""
    statements = [one for one in context.reach.statements if one not in context.safety.islands]
    parts = [part for statement in statements for part in context.facts.tree.expressions(statement)]
    running = {statement.function for statement in context.reach.statements}
    if parts and not any(_may_run_in_half(context, running, part) for part in parts):
        context.note(parts[0], NOTHING_IN_HALF, "nothing that runs here is computed in half under autocast")


def _may_run_in_half(context: Context, running: set[Function], part: cst.CSTNode) -> bool:
    rows = [row for made in context.made(part) for row in made.operations]
    if rows or not isinstance(part, cst.Call):
        return any(row is None or may_compute_in_half(row) for row in rows)
    dotted = context.facts.names.dotted(part.func) or ""
    if dotted.startswith("torch."):
        made = models.layer(dotted) or models.function(dotted)
        return made is None or may_compute_in_half(made)
    if dotted:
        return _OF_PYTHON.match(dotted) is None and not context.facts.objects.candidates(part)
    if isinstance(part.func, cst.Name) and context.facts.names.variable_at(part.func) is None:
        return part.func.value in ("getattr", "eval", "map")
    return not _is_read(context, running, part) and _may_be_layer(context, part)


def _is_read(context: Context, running: set[Function], call: cst.Call) -> bool:
    """True for functions of the unit; of a method whose object is not known, all that have its name are `running`."""
    if context.facts.objects.candidates(call):
        return True
    methods = {one.methods[called_name(call)] for one in context.facts.tree.classes if called_name(call) in one.methods}
    return bool(methods) and methods <= running


def _may_be_layer(context: Context, call: cst.Call) -> bool:
    """True for what is called, unless it is a module of the unit, a layer, or a method of containers."""
    held = context.facts.objects.objects(call.func)
    modules = [one.origin for one in held if isinstance(one.origin, (cst.Call, Class))]
    if not modules:
        return not (isinstance(call.func, cst.Attribute) and called_name(call) in _OF_PARTS)
    return not all(_is_known_layer(context, module) for module in modules)


def _is_known_layer(context: Context, module: object) -> bool:
    if isinstance(module, cst.Call):
        row = models.layer(context.facts.names.dotted(module.func) or "")
        return row is not None and not may_compute_in_half(row)
    return isinstance(module, Class) and any(
        "forward" in one.methods for one in context.facts.objects.ancestors(module)
    )
