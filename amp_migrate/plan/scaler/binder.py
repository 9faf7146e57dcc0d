"""Where the scaler lives (rule A): created once, visible wherever it is used, never None.

In order of preference: a local variable of the function that sets mixed precision up (nested functions see
it), a global where the setup stands at module level (functions that are given the optimizer get the scaler, too), an
attribute where the methods of one class use it, the way that the source's handle travels, and only then a parameter
threaded through the calls from the function that dominates all uses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Recognition, Setup
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.scaler.binding import Binding, Creation, Users
from amp_migrate.plan.scaler.carried import Hung, find_carriers
from amp_migrate.plan.scaler.constructed import Constructed
from amp_migrate.plan.scaler.creation import Creations
from amp_migrate.plan.scaler.enabling import Enabling
from amp_migrate.plan.scaler.instances import Instances
from amp_migrate.plan.scaler.passing import Passing
from amp_migrate.rules.scaler import UNKNOWN_SCALER


class Binder:
    """Finds the scaler's home for the setups and the functions that use it.

    `asking` are functions with an autocast region that reads a parameter as its condition; `can_create` tells
    whether the settings of the scaler are known in a function; `hung` where the source's handle hangs on an object.
    """

    def __init__(
        self,
        facts: Facts,
        found: Recognition,
        roles: Roles,
        enabling: Enabling,
        users: Users,
        asking: set[Function],
        can_create: Callable[[Function], bool],
        hung: Hung | None,
    ) -> None:
        setups = [setup for setup in found.setups if setup.optimizers]
        self.facts = facts
        self.found = found
        self.roles = roles
        self.users = users
        self.hung = hung
        self.home = setups[0].statement.function
        self.passing = Passing(facts, found, roles, users, asking)
        self.creations = Creations(facts, roles, enabling, setups, users, self.passing)
        self.instances = Instances(facts, roles, self.creations, self.passing, can_create)
        self.constructed = Constructed(facts, roles, self.creations, self.passing)

    def bind(self) -> Binding:
        """Raises Refusal where the uses cannot all be reached."""
        if (given := self._in_place_of_handle()) is not None:
            return given
        if all(self._sees(self.home, user) for user in self.users):
            return self._handed_on() or Binding(self.creations.each(self.home), None, [], [], {})
        if self.hung is not None:
            return self._hung(self.hung)
        attribute = self._attribute()
        found = attribute or self._constructed() or self._with_helpers()
        if found is not None and not self._can_be_created(found):
            return self._from_above() or found
        return found or self._in_what_calls() or self._threaded()

    def _in_what_calls(self) -> Binding | None:
        """On what calls the users, where siblings set mixed precision up and no function leads to all of it."""
        try:
            self._threaded()
        except Refusal:
            found = self.instances.attribute(self.instances.owner(self.instances.calling(self.users)))
            return found if found is not None and self._can_be_created(found) else None
        return None

    def _attribute(self) -> Binding | None:
        """On what sets mixed precision up, or what the users are methods of, as far as the settings are known there; a
        network that makes its own optimizer comes second.
        """
        owners = [self.home.owner if self.home.instance is not None else None, self.instances.owner(self.users)]
        places = reversed(owners) if self.home.is_of_network else owners
        found = [one for owner in places if (one := self.instances.attribute(owner)) is not None]
        return next((one for one in found if self._can_be_created(one)), found[-1] if found else None)

    def _from_above(self) -> Binding | None:
        """Handed down from a function that knows the settings, where the objects that train do not."""
        try:
            threaded = self._threaded()
        except Refusal:
            return None
        return threaded if self._can_be_created(threaded) else None

    def _can_be_created(self, binding: Binding) -> bool:
        """False for a model that makes its own optimizer, where only its trainer knows of a device."""
        return all(self.instances.can_create(creation.function) for creation in binding.creations)

    def _sees(self, home: Function, user: Function) -> bool:
        """True for a function in which a variable of `home` is there. A global that only a block such as
        `if __name__ == "__main__":` binds is not, where another file imports the function.
        """
        if home is user or not home.encloses(user):
            return home is user
        return not home.is_module or not self._binds_in_a_block(home) or not self._is_imported(user)

    def _handed_on(self) -> Binding | None:
        """As arguments, where a script hands its optimizer to functions instead of having them read a global."""
        given = {user for user in self.users if user is not self.home and self._gets_optimizer(user)}
        if not self.home.is_module or not given:
            return None
        try:
            parameters, arguments = self.passing.through(given, lambda function: function is self.home)
        except Refusal:
            return None
        return Binding(self.creations.each(self.home), None, parameters, arguments, {})

    def _gets_optimizer(self, user: Function) -> bool:
        params = user.whole.parameters
        return any(self.facts.objects.may_be(param.name, self.roles.optimizers) for param in params)

    def _binds_in_a_block(self, module: Function) -> bool:
        setups = [setup.statement for setup in self.creations.setups if setup.statement.function is module]
        places = setups or [creation.at for creation in self.creations.each(module)]
        return all(place.block.owner is not None for place in places)

    def _is_imported(self, user: Function) -> bool:
        callers = self.facts.objects.callers(user)
        is_called = any(statement.function.root is not user.root for _, statement in callers)
        return is_called or self.facts.is_used_outside(user)

    def _in_place_of_handle(self) -> Binding | None:
        """In the constructor that was given the source's handle."""
        try:
            return self.constructed.in_place_of_handle(self.home)
        except Refusal:
            return None

    def _with_helpers(self) -> Binding | None:
        """On the instances that build the optimizer, where a schedule of theirs steps it."""
        return self.instances.attribute(self.home.owner, with_helpers=True) if self.home.instance is not None else None

    def _constructed(self) -> Binding | None:
        """In the constructor of what trains, where its instances are made within sight of the scaler."""
        try:
            return self.constructed.out_of_sight(self.home)
        except Refusal:
            return None

    def _hung(self, hung: Hung) -> Binding:
        """Set where the handle was set, disabled where there was none."""
        carriers = find_carriers(self.facts, self.users)
        creation = Creation(self.home, hung.statement)
        carriers[self.home] = hung.carrier
        for user, statements in self.users.items():
            if user is self.home or not any(carrying.encloses(user) for carrying in carriers):
                message = f"{user.name} needs the scaler, and does not read it from .{hung.attribute} as the others do"
                raise Refusal(UNKNOWN_SCALER, statements[0].node, message)
        return Binding([creation], None, [], [], {}, carriers=carriers, absent=hung.absent)

    def _threaded(self) -> Binding:
        receivers = map(self.facts.tree.function_of, self.found.received)
        travels = bool(self.found.received or self.found.handed)
        carriers = find_carriers(self.facts, [*self.users, *receivers]) if travels else {}
        owners = [self.home] if carriers else self._runs() or self._scripts() or [self._dominator()]

        def sees(function: Function) -> bool:
            return any(self._sees(one, function) for one in (*owners, *carriers))

        creations = [creation for owner in owners for creation in self._creations_of(owner, owners).each(owner)]
        parameters, arguments = self.passing.through(self.users, sees)
        return Binding(creations, None, parameters, arguments, {}, carriers=carriers)

    def _creations_of(self, owner: Function, owners: list[Function]) -> Creations:
        """The places in one of several functions, without what the others below it do by themselves."""
        others = [one for one in owners if one is not owner and self.facts.calls.leads_to(owner, one)]
        inside = set().union(*map(self._below, others))
        return self.creations.without(inside) if inside else self.creations

    def _below(self, function: Function) -> set[Function]:
        return set(self.facts.calls.reachable(function))

    def _runs(self) -> list[Function]:
        """The functions that build an optimizer, where several do and each leads to all that it needs for a training
        (`train_once()` beside `cross_validate()`, or before it `pretrain()`). Empty where that is not so.
        """
        setups: dict[Function, list[Setup]] = {}
        for setup in self.creations.setups:
            setups.setdefault(setup.statement.function, []).append(setup)
        homes = list(setups)
        used = [{user for user in self.users if self.facts.calls.leads_to(home, user)} for home in homes]
        is_apart = self._are_apart(homes) and not any(home.is_module for home in homes)
        builds = all(self.creations.runs.builds_its_own(own, home) for home, own in setups.items())
        if len(homes) < 2 or not builds or not all(used) or not (is_apart or self._are_nested(setups)):
            return []
        return homes if set().union(*used) == set(self.users) and not self._called_past(homes, self.users) else []

    def _are_nested(self, setups: dict[Function, list[Setup]]) -> bool:
        """True where one of the functions leads to the others, each of which trains with nothing but its own."""
        outer = next((one for one in setups if all(self.facts.calls.leads_to(one, other) for other in setups)), None)
        inner = [one for one in setups if one is not outer]
        return outer is not None and self._are_apart(inner) and all(self._is_closed(one, setups[one]) for one in inner)

    def _is_closed(self, home: Function, setups: list[Setup]) -> bool:
        """True where nobody else runs what trains here, or sees its optimizers."""
        below = self._below(home)
        own = {one for setup in setups for node in setup.optimizers for one in self.roles.optimizers_at(node)}
        outside = [use for user, uses in self.users.items() if user not in below for use in uses]
        parts = (part for use in outside for part in self.facts.tree.expressions(use))
        read = (part for part in parts if isinstance(part, (cst.Name, cst.Attribute)))
        is_seen = any(not own.isdisjoint(self.roles.optimizers_at(part)) for part in read)
        return not is_seen and not self._called_past([home], [user for user in self.users if user in below])

    def _are_apart(self, functions: list[Function]) -> bool:
        return not any(self.facts.calls.leads_to(one, other) for one, other in itertools.permutations(functions, 2))

    def _called_past(self, homes: list[Function], users: Iterable[Function]) -> bool:
        """True where a user of the scaler is called by what none of some functions leads to."""
        below = set().union(*map(self._below, homes))
        callers = (site.caller for user in users if user not in homes for site in self.facts.calls.callers(user))
        return any(caller not in below for caller in callers)

    def _scripts(self) -> list[Function]:
        """Where several scripts build their optimizer and train with the same helpers, the lowest function of each that
        leads to all that it does of this: every one of them is a run of its own. Empty where that is not so.
        """
        if not all(setup.stays for setup in self.creations.setups):
            return []
        homes = {setup.statement.function for setup in self.creations.setups}
        users = [user for user in self.users if not self._is_called_elsewhere(user)]
        owners: list[Function] = []
        for script in self.facts.tree.functions:
            used = [user for user in users if self.facts.calls.leads_to(script, user)]
            if used and not self.facts.calls.callers(script):
                owner = self._lowest(script, homes, used)
                if owner is not None and owner not in owners:
                    owners.append(owner)
        is_apart = self._are_apart(owners)
        led_to = all(any(self.facts.calls.leads_to(owner, user) for owner in owners) for user in users)
        return owners if len(owners) > 1 and is_apart and led_to else []

    def _lowest(self, script: Function, homes: set[Function], users: list[Function]) -> Function | None:
        """The lowest function that a script calls and that leads to a setup and to some users."""
        candidates = [
            function
            for function in self.facts.calls.reachable(script)
            if any(self.facts.calls.leads_to(function, home) for home in homes)
            and all(self.facts.calls.leads_to(function, user) for user in users)
        ]
        return self._without_others_below(candidates)

    def _without_others_below(self, candidates: list[Function]) -> Function | None:
        for function in candidates:
            below = self.facts.calls.callees(function)
            if not any(other in below for other in candidates if other is not function):
                return function
        return None

    def _dominator(self) -> Function:
        """The lowest function that leads to the setups and to every use; of setups of several programs to the first."""
        users = [user for user in self.users if not self._is_called_elsewhere(user)]
        leads_to = self.facts.calls.leads_to
        candidates = [one for one in self.facts.tree.functions if all(leads_to(one, to) for to in (self.home, *users))]
        homes = {setup.statement.function for setup in self.creations.setups}
        to_all = [one for one in candidates if all(leads_to(one, home) for home in homes)]
        lowest = self._without_others_below(to_all or candidates)
        if lowest is not None:
            return lowest
        user = next(user for user in users if not self.facts.calls.leads_to(self.home, user))
        if not user.is_module:
            self.passing.check_callers(user.whole)
        raise Refusal(
            UNKNOWN_SCALER,
            self.users[user][0].node,
            f"no known function leads both to {self.creations.setup_text} (in {self.home.name}) and to {user.name}",
        )

    def _is_called_elsewhere(self, user: Function) -> bool:
        """True for what another script runs, or nobody, and this one does not."""
        leading = self.facts.calls.leading_to([user.whole])
        first = [one for one in leading if not self.facts.calls.callers(one)]
        return bool(first) and all(map(self.passing.is_run_elsewhere, first))
