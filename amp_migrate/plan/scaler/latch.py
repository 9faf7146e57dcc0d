"""A flag that goes up where mixed precision is set up, long after the object was made.

    self.use_fp16 = False          (in `__init__`)       self.scaler = GradScaler(enabled=False)
    ...
    amp.initialize(...)            (in another method)   self.scaler = GradScaler()
    self.use_fp16 = True

What the constructor knows of it is not what the training reads.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import Formula, without_not
from amp_migrate.facts.stores import Store
from amp_migrate.facts.tree import Class, Function, Statement
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.plan.model import Guard, Recognition, Setup


@dataclasses.dataclass(frozen=True, eq=False)
class Latch:
    """`setups` are those beside which the flag is set, by `raising`; `down` are the statements of constructors, or of a
    class itself, that put it down. It `is_up` where nothing but True is said beside the setups.
    """

    formula: Formula
    is_up: bool
    setups: list[Setup]
    raising: list[Statement]
    down: list[Statement]

    @property
    def homes(self) -> list[Function]:
        """The methods that set mixed precision up, each once."""
        return list(dict.fromkeys(setup.statement.function for setup in self.setups))


def find_latch(facts: Facts, found: Recognition, guard: Guard | None) -> Latch | None:
    """The flag that guards the scaled backwards, where constructors put it down, and setups alone put it up. Whoever
    puts it down again leaves a scaler that nobody minds.
    """
    flag = _flag(facts, guard) if guard is not None else None
    if guard is None or flag is None:
        return None
    owners = [setup.statement.function.owner for setup in found.setups]
    roots = {facts.objects.root_class(owner) for owner in owners if owner is not None}
    if None in owners or len(roots) != 1:
        return None
    root, field = roots.pop(), flag.attr.value
    stores = stores_on(facts, root, field)
    first = [store for store in stores if _is_in_constructor(store)]
    raising = [store for store in stores if store not in first and not _says(store, False)]
    beside = {store: setup for store in raising for setup in found.setups if _goes_with(store, setup)}
    setups = [setup for setup in found.setups if setup in beside.values()]
    down = [store.statement for store in first] or _on_classes(facts, root, field)
    if not down or not setups or len(beside) < len(raising) or not _is_down(facts, first, setups):
        return None
    is_up = all(_says(store, True) for store in raising)
    return Latch(guard.formula, is_up, setups, [store.statement for store in raising], down)


def _flag(facts: Facts, guard: Guard) -> cst.Attribute | None:
    """The attribute that is true in the arm of a guard, which may have a name of its own: `mixed = self.use_fp16`."""
    test = without_not(guard.test)
    if (guard.arm == "body") is not (test is guard.test):
        return None
    variable = facts.names.variable_at(test)
    if variable is not None and len(variable.bindings) == 1 and not variable.bindings[0].selector:
        test = variable.bindings[0].value or test
    test = facts.objects.behind_property(test)
    return test if isinstance(test, cst.Attribute) else None


def _is_down(facts: Facts, first: list[Store], setups: list[Setup]) -> bool:
    """True where constructors say False; or what they are told, where they leave the setup to others."""
    if all(_says(store, False) for store in first):
        return True
    homes = {setup.statement.function for setup in setups}
    calls = any(facts.calls.reaches(store.statement.function, homes.__contains__) for store in first)
    return not calls and not any(_says(store, True) for store in first)


def _on_classes(facts: Facts, root: Class, field: str) -> list[Statement]:
    """`use_fp16 = False` in the body of a class."""
    family = [owner for owner in facts.tree.classes if facts.objects.root_class(owner) is root]
    lines = [line for owner in family for line in owner.node.body.body if isinstance(line, cst.SimpleStatementLine)]
    assigned = [part for line in lines for part in line.body if isinstance(part, cst.Assign)]
    return [
        facts.tree.statement_of(one)
        for one in assigned
        if literal_value(one.value) is False
        and any(isinstance(to.target, cst.Name) and to.target.value == field for to in one.targets)
    ]


def _goes_with(store: Store, setup: Setup) -> bool:
    """True for what is set beside a setup, or before it for what stands there to ask."""
    statement, place = store.statement, setup.statement
    if statement.block is place.block:
        return _says(store, True) or statement.order < place.order
    return statement.order < place.order and any(outer.block is statement.block for outer in place.path())


def is_changed_later(facts: Facts, init: Function, field: str) -> bool:
    """True for a flag that a constructor gives a constant, and something that it does not call gives another value."""
    assert init.owner is not None
    stores = stores_on(facts, facts.objects.root_class(init.owner), field)
    first = {literal_value(store.value) for store in stores if store.statement.function is init and not store.selector}
    others = {store.statement.function for store in stores if literal_value(store.value) not in first} - {init}
    is_constant = len(first) == 1 and UNKNOWN not in first
    return is_constant and any(not facts.calls.reaches(init, {other}.__contains__) for other in others)


def stores_on(facts: Facts, root: Class, field: str) -> list[Store]:
    """What is stored in a field of the instances of a class hierarchy."""
    return [
        store
        for store in facts.objects.stores_of(field)
        if any(one.kind == "instance" and one.origin is root for one in facts.objects.objects(store.base))
    ]


def _is_in_constructor(store: Store) -> bool:
    function = store.statement.function
    return function.name == "__init__" and function.is_method


def _says(store: Store, value: bool) -> bool:
    return not store.selector and literal_value(store.value) is value
