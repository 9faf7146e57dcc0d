"""What a name of run time may mean: everything that a module hands out, whether it defines it or imports it.

    models.__dict__[args.arch]        getattr(models, args.arch)        eval(args.arch)

What such a module imports from files outside of the unit is in sight as soon as they are read. What the program puts
into it counts as well: `models.__dict__[name] = own.__dict__[name]`, `setattr(models, name, make)`.
"""

from __future__ import annotations

import dataclasses
import os

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import called_name
from amp_migrate.facts.variables import Variable
from amp_migrate.interp.containers import Containers

_DICT = ".__dict__"


@dataclasses.dataclass
class Meant:
    """Definitions in the unit, each once, and the full names of those, or of whole modules, that are not in it.

    `hidden` is what the program puts into such a module and nobody can follow.
    """

    definitions: dict[cst.CSTNode, None] = dataclasses.field(default_factory=dict)
    unread: dict[str, None] = dataclasses.field(default_factory=dict)
    hidden: dict[cst.BaseExpression, None] = dataclasses.field(default_factory=dict)


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


def modules_looked_up_in(facts: Facts, callee: cst.BaseExpression) -> list[str]:
    """The full names of modules of which an expression may be one of the values: also by `zoo = models.__dict__`."""
    return [path.partition(_DICT)[0] for path in facts.objects.import_paths(callee) if _DICT in path]


def _add(facts: Facts, name: str, meant: Meant, seen: set[str]) -> None:
    if name in seen:
        return
    seen.add(name)
    module = facts.names.module_named(name)
    variable = facts.names.variable_behind(name)
    if variable is not None:
        _add_variable(facts, variable, meant)
    if module is not None:
        for one in facts.names.scopes[module].variables.values():
            _add_variable(facts, one, meant)
        for star in facts.names.star_imports.get(module, []):
            _add(facts, star, meant, seen)
    if module is None and variable is None and facts.elsewhere.is_there(name):
        meant.unread[name] = None
    for value, merges in facts.analysis(_Written).into.get(name, ()):
        _add_written(facts, value, merges, meant, seen)


class _Written:
    """What the program puts into modules, by their full names: a value, or with true all that a value holds."""

    def __init__(self, facts: Facts) -> None:
        self.into: dict[str, list[tuple[cst.BaseExpression, bool]]] = {}
        fields = (all_ for field, all_ in facts.objects.all_stores() if not field.startswith("["))
        stores = [(one.base, one.value) for all_ in fields for one in all_ if _is_followed(facts, one.value)]
        calls = (call.args for call, _ in facts.tree.every(cst.Call) if called_name(call) == "setattr")
        stores += [(args[0].value, args[2].value) for args in calls if len(args) == 3]
        for base, value in stores:
            for path in facts.objects.import_paths(base):
                self.into.setdefault(path, []).append((value, False))
        for put in facts.analysis(Containers).puts:
            for path in facts.objects.import_paths(put.base) if not put.selector else ():
                self.into.setdefault(path.removesuffix(_DICT), []).append((put.value, put.merges))


def _is_followed(facts: Facts, value: cst.BaseExpression) -> bool:
    return all(one.source.kind in ("import", "definition") for one in facts.objects.objects(value))


def _add_written(facts: Facts, value: cst.BaseExpression, merges: bool, meant: Meant, seen: set[str]) -> None:
    table = table_of(value) if isinstance(value, cst.Call) else None
    held = facts.objects.objects if table is not None or not merges else facts.objects.elements
    for one in held(table or value):
        if one.source.kind == "import":
            _add(facts, str(one.source.origin).partition(_DICT)[0], meant, seen)
        elif isinstance(one.origin, (cst.ClassDef, cst.FunctionDef)):
            meant.definitions[one.origin] = None
        else:
            meant.hidden[value] = None


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
