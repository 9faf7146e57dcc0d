"""The scaler as an argument of the constructor of what trains, which keeps it for the methods.

trainer = Trainer(model, optimizer, scaler)

class Trainer:
    def __init__(self, model, optimizer, scaler):
        self.optimizer = optimizer
        self.scaler = scaler
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, Function, Statement, lowest_block
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.scaler.binding import Binding, Creation
from amp_migrate.plan.scaler.carried import Carrier
from amp_migrate.plan.scaler.constructors import Constructors, methods_of
from amp_migrate.plan.scaler.creation import Creations
from amp_migrate.plan.scaler.passing import Passing, Sees
from amp_migrate.plan.scaler.settable import takes_attributes


class Constructed:
    """Finds the constructor. A function beside the class that saves or loads the scaler's state is given it, too."""

    def __init__(self, facts: Facts, roles: Roles, creations: Creations, passing: Passing) -> None:
        self.facts = facts
        self.roles = roles
        self.creations = creations
        self.passing = passing
        self.users = creations.users

    def in_place_of_handle(self, home: Function) -> Binding | None:
        """The constructor that was given the source's handle, where mixed precision is set up elsewhere. Its methods
        read the scaler there, also those that could see it. Raises Refusal.
        """
        given = [one for one in self.facts.tree.functions if one.name == "__init__" and self.passing.takes_handle(one)]
        owners = [one.owner for one in given if one.owner is not None]
        if not owners or home.owner in owners:
            return None
        methods = {*given, *(method for one in given for method in self._methods_below(one))}

        def sees(function: Function) -> bool:
            return home.encloses(function) and not any(method.encloses(function) for method in methods)

        return self._bound(home, sees, given)

    def out_of_sight(self, home: Function) -> Binding | None:
        """The constructor of what trains and does not see the scaler. Raises Refusal."""
        return self._bound(home, home.encloses, ())

    def _bound(self, home: Function, sees: Sees, handing: Sequence[Function]) -> Binding | None:
        """`sees` tells who needs no argument. Constructors of derived classes may be `handing` the scaler on."""
        outside = [user for user in self.users if not sees(user)]
        inits = Constructors(self.facts, methods_of(outside)).constructors()
        unused = self._of_nobody(inits)
        handed = [init for init in handing if init not in unused]
        made = self._called_by_others(handed) or self._called_by_all(inits.difference(unused))
        if not made or not all(map(self.facts.calls.callers, made)):
            return None
        keeping = [*made, *unused]
        taken_up = [taken for one in keeping if (taken := self._takes_up(one)) is not None]
        if len(taken_up) < len(keeping):
            return None
        carriers = {
            method: carrier
            for one, (_, carrier) in zip(keeping, taken_up, strict=True)
            for method in self._methods_below(one)
            if method not in handing
        }
        helpers = [user for user in outside if not any(method.encloses(user) for method in (*carriers, *keeping))]
        if not self._can_be_given(helpers, outside):
            return None
        parameters, arguments = self.passing.through(
            [*made, *helpers],
            lambda function: sees(function) or any(method.encloses(function) for method in carriers),
        )
        parameters += map(self.passing.new_parameter, unused)
        creation = self._before_calls(self.creations.at(home), [argument.call for argument in arguments])
        return Binding([creation], None, parameters, arguments, {}, carriers=carriers, taken_up=tuple(taken_up))

    def _can_be_given(self, helpers: Collection[Function], outside: Iterable[Function]) -> bool:
        """True where functions beside the class save or load a state, or were given the handle as well, and somebody
        trains.
        """
        if helpers and all(self.passing.optional.only_keeps_state(user) for user in outside):
            return False
        return not any(
            helper.is_method
            or not (self.passing.optional.only_keeps_state(helper) or self.passing.takes_handle(helper))
            for helper in helpers
        )

    def _of_nobody(self, inits: Iterable[Function | None]) -> list[Function]:
        """The constructors of classes that keep the state of the scaler and nothing else, and that nobody makes or
        speaks of: an older one beside the one that is used.
        """
        states = [access.statement for access in (*self.passing.found.saves, *self.passing.found.loads)]
        found = []
        for init in inits:
            if init is None or init.owner is None or self.facts.calls.value_uses(init):
                continue
            used = [use for user in self.users if self._is_of(user, init.owner) for use in self.users[user]]
            is_made = any(self.facts.objects.makers.get(one) for one in self.facts.objects.derived(init.owner))
            if all(use in states for use in used) and not is_made and not self.facts.is_used_outside(init):
                found.append(init)
        return sorted(found, key=self.facts.tree.functions.index)

    def _is_of(self, user: Function, owner: Class) -> bool:
        method = user.method
        return method is not None and method.owner is owner

    def _takes_up(self, init: Function) -> tuple[Statement, Carrier] | None:
        """After which statement a constructor keeps the scaler that it is given, and how the methods read it there."""
        kept = self._keeps_optimizer(init)
        if kept is None or not init.parameters or init.owner is None or not takes_attributes(self.facts, init.owner):
            return None
        return kept, Carrier(f"{init.parameters[0].name.value}.")

    def _called_by_others(self, inits: Sequence[Function]) -> list[Function]:
        """The constructors without those that hand on what they are given to that of a base class."""
        return [init for init in inits if not any(self._calls_above(init, other) for other in inits)]

    def _calls_above(self, init: Function, other: Function) -> bool:
        """True for `super().__init__(model, amp)`; what it makes itself is another instance."""
        if init.owner is None or init.owner is other.owner:
            return False
        inherits = other.owner in self.facts.objects.ancestors(init.owner)
        return inherits and other in self.facts.calls.callees(init)

    def _called_by_all(self, inits: set[Function | None]) -> list[Function]:
        """The only constructor, or that of a base class which those of the derived classes call."""
        for init in inits:
            callers = {site.caller for site in self.facts.calls.callers(init)} if init is not None else set()
            if init is not None and all(other is init or other in callers for other in inits):
                return [init]
        return []

    def _before_calls(self, creation: Creation, calls: list[cst.Call]) -> Creation:
        """Earlier, where an instance is made before mixed precision is set up for what it holds."""
        statements = [self.facts.tree.statement_of(call) for call in calls]
        own = [statement for statement in statements if statement.function is creation.function]
        if all(statement.order > creation.at.order for statement in own):
            return creation
        block = lowest_block([creation.at, *own])
        lifted = [place for statement in own for place in statement.path() if place.block is block]
        return Creation(creation.function, min(lifted, key=lambda place: place.index), before=True)

    def _keeps_optimizer(self, init: Function) -> Statement | None:
        """`self.optimizer = optimizer`, after which the scaler is kept; without it, the last plain statement."""
        plain = [statement for statement in init.body.statements if isinstance(statement.node, cst.Assign)]
        for statement in plain:
            assert isinstance(statement.node, cst.Assign)
            if self.roles.optimizers_at(statement.node.value):
                return statement
        return plain[-1] if plain else None

    def _methods_below(self, init: Function) -> Iterator[Function]:
        """The methods of what a constructor makes, and of what derives from it, without the constructor."""
        for cls in self.facts.objects.derived(init.owner) if init.owner is not None else ():
            methods = (method for method in cls.methods.values() if method.is_method and method.parameters)
            yield from (method for method in methods if method is not init)
