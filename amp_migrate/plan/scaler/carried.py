"""Where the source's handle travels as a value, the scaler travels the same way (rule A3).

    model.amp = amp                    model.scaler = GradScaler()      (before: model.amp = None)
    return model, optimizer, amp       return model, optimizer, scaler
    state = {"amp": amp}               state = {"amp": scaler}

A function that reads the handle from an attribute, an element or a returned value reads the scaler from there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.stores import ANY, Store, subscript_key
from amp_migrate.facts.tree import Class, Function, Statement
from amp_migrate.facts.values import literal_value
from amp_migrate.plan.model import Recognition
from amp_migrate.plan.scaler.settable import takes_attributes


@dataclasses.dataclass(frozen=True)
class Carrier:
    """How a function writes the scaler: a name after `prefix` ("self." or nothing), or an element."""

    prefix: str = ""
    element: str | None = None

    def text(self, name: str) -> str:
        return self.element if self.element is not None else f"{self.prefix}{name}"


@dataclasses.dataclass(frozen=True)
class Hung:
    """The handle stored on an object of another place, by a function that sets mixed precision up.

    `absent` are the statements that say `None` in its place.
    """

    attribute: str
    statement: Statement
    carrier: Carrier
    absent: tuple[tuple[Statement, Carrier], ...]


def find_hung(facts: Facts, found: Recognition) -> Hung | None:
    """The one store of the handle on an object that the setup's function was given; None for other shapes."""
    homes = {setup.statement.function for setup in found.setups}
    stores = [
        (field, store)
        for field, stores in facts.objects.all_stores()
        for store in stores
        if field.isidentifier() and _is_handle(facts, store.value) and _is_given(facts, store, homes)
    ]
    if len(stores) != 1:
        return None
    field, store = stores[0]
    if not all(takes_attributes(facts, one) for one in _classes_of(facts, store.base)):
        return None
    others = [
        other for other in facts.objects.stores_of(field) if other is not store and _same_object(facts, other, store)
    ]
    if not others or any(literal_value(other.value) is not None for other in others):
        return None
    absent = tuple((other.statement, _attribute(facts, other.base)) for other in others)
    return Hung(field, store.statement, _attribute(facts, store.base), absent)


def find_carriers(facts: Facts, users: Iterable[Function]) -> dict[Function, Carrier]:
    """How those of the functions write the scaler that read the handle from somewhere, always from the same place."""
    found = {}
    for function in users:
        carriers = {carrier for part in _parts(facts, function) if (carrier := _carrier(facts, part)) is not None}
        if len(carriers) == 1:
            found[function] = carriers.pop()
    return found


def _parts(facts: Facts, function: Function) -> Iterator[cst.BaseExpression]:
    for statement in function.body.statements:
        for inner in statement.descendants():
            for part in facts.tree.expressions(inner):
                if isinstance(part, (cst.Name, cst.Attribute, cst.Subscript)) and not facts.tree.is_label(part):
                    yield part


def _carrier(facts: Facts, node: cst.BaseExpression) -> Carrier | None:
    """The carrier that an expression is; None for an import, for a parameter, and for everything else."""
    if not _is_handle(facts, node):
        return None
    if isinstance(node, cst.Attribute):
        return _attribute(facts, node.value) if facts.names.dotted(node) is None else None
    if isinstance(node, cst.Subscript):
        return Carrier(element=facts.text(node)) if subscript_key(node) != ANY else None
    variable = facts.names.variable_at(node)
    if variable is None or any(binding.kind in ("import", "param") for binding in variable.bindings):
        return None
    return Carrier() if any(binding.selector for binding in variable.bindings) else None


def _attribute(facts: Facts, base: cst.BaseExpression) -> Carrier:
    return Carrier(f"{facts.text(base)}.")


def _is_handle(facts: Facts, node: cst.BaseExpression) -> bool:
    return "apex.amp" in facts.objects.import_paths(node)


def _is_given(facts: Facts, store: Store, homes: set[Function]) -> bool:
    """True for `learner.amp = amp` in the function that sets up, where `learner` is its parameter and not `self`."""
    function = store.statement.function
    variable = facts.names.variable_at(store.base)
    if function not in homes or variable is None or store.selector:
        return False
    params = function.parameters[1:] if function.is_method else function.parameters
    return any(binding.node in params for binding in variable.bindings)


def _classes_of(facts: Facts, node: cst.BaseExpression) -> Iterator[Class]:
    """The classes in the unit of what an expression may be; a base stands for all below it."""
    for one in facts.objects.objects(node):
        if one.kind == "instance" and isinstance(one.origin, Class):
            yield one.origin


def _same_object(facts: Facts, one: Store, other: Store) -> bool:
    return bool(facts.objects.objects(one.base) & facts.objects.objects(other.base))
