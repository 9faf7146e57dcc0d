"""Tables that decorators fill, from files that nobody has to name.

MODELS[args.arch](**settings)           what stands under `@register("...")`, where `register` keeps it in MODELS
MODELS.get(args.arch)(config)           the same of a class that keeps a table
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.each_once import each_once
from amp_migrate.facts.tree import Function, called_name

REGISTRY = re.compile("regist", re.IGNORECASE)  # what makes one has it in its name


def registering(facts: Facts, callee: cst.BaseExpression) -> Iterator[str]:
    """The full names of what may be decorators that fill the table in which a callee is looked up."""
    for one in each_once([callee], partial(_values, facts)):
        table = _table(one)
        if table is not None:
            yield from _filling(facts, table)


def _values(facts: Facts, callee: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(callee, (cst.Name, cst.Attribute)):
        return facts.objects.values_of(callee)
    function = facts.objects.called_function(callee) if isinstance(callee, cst.Call) else None
    return facts.objects.returned_by(function) if function is not None else []


def is_out_of_sight(facts: Facts, callee: cst.BaseExpression) -> bool:
    """True for `MODELS.get(name)` of a registry that another package keeps."""
    table = _table(callee)
    made = facts.objects.objects(table) if table is not None else frozenset()
    return bool(made) and all(
        isinstance(one.origin, cst.Call) and REGISTRY.search(facts.text(one.origin.func)) for one in made
    )


def imported(facts: Facts, callee: cst.BaseExpression) -> list[str]:
    """The full names of imported tables: `MODELS` of `model = MODELS.get(name)`, which is called."""
    values = facts.objects.values_of(callee) if isinstance(callee, (cst.Name, cst.Attribute)) else []
    tables = [table for value in (callee, *values) if (table := _table(value)) is not None]
    return [path for table in tables for path in facts.objects.import_paths(table)]


def _table(callee: cst.BaseExpression) -> cst.BaseExpression | None:
    """X in `X[name]` and `X.get(name)`."""
    if isinstance(callee, cst.Subscript):
        return callee.value
    if isinstance(callee, cst.Call) and isinstance(callee.func, cst.Attribute) and called_name(callee) == "get":
        return callee.func.value
    return None


def _filling(facts: Facts, table: cst.BaseExpression) -> Iterator[str]:
    held = facts.objects.objects(table)
    for field, stores in facts.objects.all_stores():
        for store in stores if field.startswith("[") else ():
            if isinstance(store.value, cst.Name) and held & facts.objects.objects(store.base):
                variable = facts.names.variable_at(store.value)
                kinds = {binding.kind for binding in variable.bindings} if variable is not None else set()
                owner = variable.scope.owner if variable is not None and "param" in kinds else None
                if isinstance(owner, Function):
                    callers = [statement.function for _, statement in facts.objects.possible_callers(owner)]
                    yield from (name for one in (owner, *callers) for name in _with_outer(facts, one))


def _with_outer(facts: Facts, function: Function) -> Iterator[str]:
    """A function that registers, and those around it: one of them is the decorator."""
    module = facts.file_of(function.node).name
    yield from (f"{module}.{one.name}" for one in function.around if not one.is_module)
