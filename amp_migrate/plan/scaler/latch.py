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
from amp_migrate.facts.conditions import Formula
from amp_migrate.facts.stores import Store
from amp_migrate.facts.tree import Class, Function, Statement
from amp_migrate.facts.values import literal_value
from amp_migrate.plan.model import Guard, Recognition, Setup


@dataclasses.dataclass(frozen=True, eq=False)
class Latch:
    """`setups` are those beside which the flag is set, `down` the statements of constructors that put it down. It
    `is_up` where nothing but True is said there.
    """

    formula: Formula
    is_up: bool
    setups: list[Setup]
    down: list[Statement]

    @property
    def homes(self) -> list[Function]:
        """The methods that set mixed precision up, each once."""
        return list(dict.fromkeys(setup.statement.function for setup in self.setups))


def find_latch(facts: Facts, found: Recognition, guard: Guard | None) -> Latch | None:
    """The flag that guards the scaled backwards, where constructors put it down, and setups alone set it otherwise."""
    if guard is None or guard.arm != "body" or not isinstance(guard.test, cst.Attribute):
        return None
    stores = facts.objects.stores_of(guard.test.attr.value)
    down = [store.statement for store in stores if _is_in_constructor(store) and _says(store, False)]
    others = [store for store in stores if not _is_in_constructor(store)]
    setups = [setup for setup in found.setups if any(_goes_with(store, setup) for store in others)]
    beside = all(any(_goes_with(store, setup) for setup in setups) for store in others)
    if not down or not setups or not beside or len(down) + len(others) != len(stores):
        return None
    owners = {one.function.owner for one in down}
    own = len(owners) == 1 and all(setup.statement.function.owner in owners for setup in setups)
    return Latch(guard.formula, all(_says(store, True) for store in others), setups, down) if own else None


def _goes_with(store: Store, setup: Setup) -> bool:
    """True for what is set beside a setup, or before it for what stands there to ask."""
    statement, place = store.statement, setup.statement
    if statement.block is place.block:
        return _says(store, True) or statement.order < place.order
    return statement.order < place.order and any(outer.block is statement.block for outer in place.path())


def is_raised_later(facts: Facts, init: Function, field: str) -> bool:
    """True for a flag that a constructor puts down, and that something sets which the constructor does not call."""
    assert init.owner is not None
    root = facts.objects.root_class(init.owner)
    stores = [store for store in facts.objects.stores_of(field) if _is_of(facts, store, root)]
    own = [store for store in stores if store.statement.function is init]
    others = {store.statement.function for store in stores if not _says(store, False)} - {init}
    is_down = bool(own) and all(_says(store, False) for store in own)
    return is_down and any(not facts.calls.reaches(init, {other}.__contains__) for other in others)


def _is_of(facts: Facts, store: Store, root: Class) -> bool:
    return any(one.kind == "instance" and one.origin is root for one in facts.objects.objects(store.base))


def _is_in_constructor(store: Store) -> bool:
    function = store.statement.function
    return function.name == "__init__" and function.is_method


def _says(store: Store, value: bool) -> bool:
    return not store.selector and literal_value(store.value) is value
