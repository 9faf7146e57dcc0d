"""What a name of run time may mean: everything that a module hands out, whether it defines it or imports it.

    models.__dict__[args.arch]        getattr(models, args.arch)        eval(args.arch)

What such a module imports from files outside of the unit is in sight as soon as they are read.
"""

from __future__ import annotations

import dataclasses
import os

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, called_name
from amp_migrate.facts.variables import Variable


@dataclasses.dataclass
class Meant:
    """Definitions in the unit, each once, and the full names of those, or of whole modules, that are not in it."""

    definitions: dict[cst.CSTNode, None] = dataclasses.field(default_factory=dict)
    unread: dict[str, None] = dataclasses.field(default_factory=dict)


def table_of(callee: cst.BaseExpression) -> cst.BaseExpression | None:
    """X in `X.__dict__[name]`, `vars(X)[name]` and `getattr(X, name)`."""
    if isinstance(callee, cst.Call):
        return callee.args[0].value if called_name(callee) == "getattr" and callee.args else None
    if not isinstance(callee, cst.Subscript):
        return None
    table = callee.value
    if isinstance(table, cst.Call):
        return table.args[0].value if called_name(table) == "vars" and table.args else None
    return table.value if isinstance(table, cst.Attribute) and table.attr.value == "__dict__" else None


def meant_by(facts: Facts, name: str) -> Meant:
    """What the full name of a module or of something in it may mean; what belongs to other packages means nothing."""
    meant = Meant()
    _add(facts, name, meant, set())
    return meant


def _add(facts: Facts, name: str, meant: Meant, seen: set[Function]) -> None:
    module = facts.names.module_named(name)
    variable = facts.names.variable_behind(name)
    if variable is not None:
        _add_variable(facts, variable, meant)
    if module is not None and module not in seen:
        seen.add(module)
        for one in facts.names.scopes[module].variables.values():
            _add_variable(facts, one, meant)
        for star in facts.names.star_imports.get(module, []):
            _add(facts, star, meant, seen)
    if module is None and variable is None and facts.elsewhere.is_there(name):
        meant.unread[name] = None


def _add_variable(facts: Facts, variable: Variable, meant: Meant) -> None:
    for one in facts.objects.variable_objects(variable):
        if isinstance(one.origin, (cst.ClassDef, cst.FunctionDef)):
            meant.definitions[one.origin] = None
        elif one.kind == "import":
            path = str(one.origin)
            if not is_module(path) and facts.elsewhere.is_there(path):
                meant.unread[path] = None


def is_module(path: str) -> bool:
    """True for a full name with nothing after that of a file: a module of the project is none of the things in it."""
    return os.path.isabs(path) and "." not in os.path.basename(path)
