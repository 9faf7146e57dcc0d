"""Where a scaler lives and how each function reads it: what the binder decides, as data."""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts.tree import Class, Function, Statement
from amp_migrate.plan.scaler.carried import Carrier


@dataclasses.dataclass(frozen=True)
class Creation:
    """The scaler is created in `function`, after (or before) the statement `at`."""

    function: Function
    at: Statement
    before: bool = False

    @property
    def follower(self) -> Statement | None:
        """The statement before which all that the scaler reads has its value; None at the end of the function."""
        return self.at if self.before else self.at.follower()


@dataclasses.dataclass(frozen=True)
class NewParameter:
    """A parameter that a function gains after `after`, or in the place of `replaces`.

    `is_optional` where some calls leave it out: as they left out the source's handle (its default is a disabled
    scaler), or the optimizer that it goes with (its default is None, as that one's). It `may_be_none` with that one,
    also where these calls say so.
    """

    function: Function
    after: cst.Param | None
    replaces: cst.Param | None = None
    is_optional: bool = False
    may_be_none: bool = False


@dataclasses.dataclass(frozen=True)
class NewArgument:
    """An argument that a call of `function` gains at `index`, or in the place of `replaces`.

    `call` is the call, or the `partial` that binds the argument; `caller` the function it stands in. It `is_none` where
    the call gives None for the optimizer that the scaler goes with.
    """

    function: Function
    call: cst.Call
    caller: Function
    index: int
    keyword: bool
    replaces: cst.Arg | None = None
    is_none: bool = False


@dataclasses.dataclass(eq=False)
class Binding:
    """Where the scaler is created, and what it is called in each function that uses it.

    An attribute has several creations where several methods start a run of their own. `carriers` are the functions that
    read the scaler where the source read its handle, `absent` the statements that said `None` in its place or that it
    is off, `taken_up` those after which a constructor keeps the scaler that it is given.
    """

    creations: list[Creation]
    owner: Class | None  # set for an attribute of its instances
    parameters: list[NewParameter]
    arguments: list[NewArgument]
    receivers: dict[Function, str]
    family: frozenset[Class] = frozenset()
    carriers: dict[Function, Carrier] = dataclasses.field(default_factory=dict)
    absent: tuple[tuple[Statement, Carrier], ...] = ()
    taken_up: tuple[tuple[Statement, Carrier], ...] = ()

    @property
    def is_set_early(self) -> bool:
        """False for an attribute that an instance gets only when it starts to train."""
        return self.owner is None or bool(self.absent) or self.creations[0].function.name == "__init__"

    def may_be_none(self, function: Function) -> bool:
        """True for a function that some calls give no scaler: they do not train."""
        return any(one.may_be_none and one.function.encloses(function) for one in self.parameters)

    def expression(self, function: Function, name: str) -> str | None:
        """How `function` reads the thing bound as `name`; None where it cannot see it."""
        if any(parameter.function.encloses(function) for parameter in self.parameters):
            return name
        for carrying, carrier in self.carriers.items():
            if carrying.encloses(function):
                return carrier.text(name)
        if self.owner is not None:
            receiver = self._receiver(function)
            return f"{receiver}.{name}" if receiver is not None else None
        return name if any(creation.function.encloses(function) for creation in self.creations) else None

    def _receiver(self, function: Function) -> str | None:
        """The instance in a function: one that uses it already, or any method of the class."""
        if function in self.receivers:
            return self.receivers[function]
        method = function.method
        return method.instance if method is not None and method.owner in self.family else None


Users = dict[Function, list[Statement]]
