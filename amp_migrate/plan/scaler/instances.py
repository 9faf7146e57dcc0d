"""The scaler as an attribute of the objects that train."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, Function, Statement, called_name
from amp_migrate.plan.regions.training import lowest_block
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.scaler.binding import Binding, Creation
from amp_migrate.plan.scaler.carried import Carrier
from amp_migrate.plan.scaler.constructors import Constructors
from amp_migrate.plan.scaler.creation import Creations
from amp_migrate.plan.scaler.passing import Passing
from amp_migrate.plan.scaler.settable import takes_attributes

_PARALLEL = frozenset("DataParallel DistributedDataParallel DDP FullyShardedDataParallel".split())


class Instances:
    """Finds an attribute for the scaler. `can_create` tells whether its settings are known in a function."""

    def __init__(
        self,
        facts: Facts,
        roles: Roles,
        creations: Creations,
        passing: Passing,
        can_create: Callable[[Function], bool],
    ) -> None:
        self.facts = facts
        self.roles = roles
        self.creations = creations
        self.passing = passing
        self.can_create = can_create
        self.setups = creations.setups
        self.users = creations.users

    def owner(self, users: Iterable[Function]) -> Class | None:
        """The class of the methods that use it, or what their classes have in common; None where some user is no
        method. A function that only saves or loads its state is given it.
        """
        methods = [self._method_of(user) for user in users if user.is_method or not self.passing.only_keeps_state(user)]
        owners = [method.owner if method is not None else None for method in methods]
        above = [self.facts.objects.ancestors(owner) if owner is not None else set() for owner in owners]
        return max(
            set.intersection(*above) if above else (),
            key=lambda one: len(self.facts.objects.ancestors(one)),
            default=None,
        )

    def _methods_of(self, functions: Iterable[Function]) -> list[Function]:
        return [method for function in functions if (method := self._method_of(function)) is not None]

    def _method_of(self, function: Function) -> Function | None:
        current: Function | None = function
        while current is not None and not current.is_method:
            current = current.parent
        return current

    def attribute(self, owner: Class | None, *, with_helpers: bool = False) -> Binding | None:
        """An attribute of the class's instances; functions that know no instance get a parameter, and `with_helpers`
        methods of other classes that only this one calls.
        """
        if owner is None:
            return None
        line = self._line_of(owner)
        own = [method for method in self._methods_of(self.users) if method.owner in line]
        found = Constructors(self.facts, own).completed(self._attribute_creations(owner), self._creation_in)
        creations = [_before_returns(one) for one in found]
        created = [creation.function.owner for creation in creations if creation.function.owner is not None]
        if not creations or not all(takes_attributes(self.facts, one) for one in created):
            return None
        receivers = {creation.function: creation.function.parameters[0].name.value for creation in creations}
        needing: list[Function] = []
        waiting = list(self.users)
        while waiting:
            user = waiting.pop()
            receiver = self._receiver(user, owner)
            if receiver is not None:
                receivers[user] = receiver
                continue
            function = self.passing.threadable(user)
            if function in needing:
                continue
            callers = self.facts.calls.callers(function)
            if not callers or function.is_module:
                return None
            if function.is_method and not (with_helpers and self._serves(function, owner)):
                return None
            self.passing.check_callers(function)
            needing.append(function)
            waiting.extend(site.caller for site in self.passing.giving(function))
        if any(self._is_made_later(receivers[caller], use) for caller, use in self._reads(receivers, needing)):
            return None
        reading = [method for method in self._methods_of(receivers) if method.owner in line]
        if not Constructors(self.facts, reading).all_have_one(creations):
            return None
        parameters = [self.passing.new_parameter(function) for function in needing]
        arguments = self.passing.arguments(
            parameters, lambda caller: caller in receivers or any(function.encloses(caller) for function in needing)
        )
        family = [cls for one in created for cls in self._line_of(one)]
        return Binding(creations, owner, parameters, arguments, receivers, frozenset(family))

    def _reads(self, receivers: dict[Function, str], needing: list[Function]) -> Iterator[tuple[Function, Statement]]:
        """Where functions read the scaler off an instance: they use it, or pass it to one that is `needing` it."""
        for user, statements in self.users.items():
            yield from ((user, statement) for statement in statements if user in receivers)
        sites = [site for function in needing for site in self.passing.giving(function)]
        yield from ((site.caller, site.statement) for site in sites if site.caller in receivers)

    def _is_made_later(self, receiver: str, use: Statement) -> bool:
        """True for a run that is resumed before what trains is built: there is no instance yet."""
        variable = self.facts.names.scope_of(use.function).variables.get(receiver.partition(".")[0])
        bound = [one.statement for one in variable.bindings] if variable is not None else []
        return bool(bound) and all(one is not None and use.order < one.order for one in bound)

    def _serves(self, method: Function, owner: Class) -> bool:
        """True for a method of a helper that only the class calls: a schedule around its optimizer. A class with
        relatives is no such helper, since a call may run another method than is known.
        """
        assert method.owner is not None
        callers = [self._method_of(site.caller) for site in self.facts.calls.callers(method)]
        own = all(one is not None and one.owner in self._line_of(owner) for one in callers)
        return own and len(self._line_of(method.owner)) == 1

    def _line_of(self, owner: Class) -> frozenset[Class]:
        """The class with those that it inherits from or that inherit from it; not its siblings."""
        return frozenset(self.facts.objects.ancestors(owner)).union(self.facts.objects.derived(owner))

    def _receiver(self, function: Function, owner: Class) -> str | None:
        """An expression for the instance in a function: `self`, or `self.GAN` in another class."""
        root, line = self.facts.objects.root_class(owner), self._line_of(owner)
        method = self._method_of(function)
        if method is not None and method.owner in line and method.parameters:
            return method.parameters[0].name.value
        if any(self.facts.objects.root_class(cls) is root and cls not in line for cls in self.facts.tree.classes):
            return None  # instances are known by their root: it might be one of another class
        for candidate in function.body.statements:
            for statement in candidate.descendants():
                if isinstance(statement.node, (cst.FunctionDef, cst.ClassDef)):
                    continue  # the names of its parameters are its own
                for part in self.facts.tree.expressions(statement):
                    if isinstance(part, (cst.Name, cst.Attribute)) and self._is_instance(part, root):
                        return self.facts.text(part)
        return None

    def _is_instance(self, node: cst.BaseExpression, root: Class) -> bool:
        objects = self.facts.objects.objects(node)
        is_one = len(objects) == 1 and all(one.kind == "instance" and one.origin is root for one in objects)
        return is_one and not self._may_be_wrapped(node, frozenset())

    def _may_be_wrapped(self, node: cst.CSTNode, seen: frozenset[cst.CSTNode]) -> bool:
        """True where DataParallel or the like may be around an instance: the wrapper lacks its attributes."""
        if isinstance(node, cst.Call):
            return called_name(node) in _PARALLEL
        if isinstance(node, cst.IfExp):
            return any(self._may_be_wrapped(arm, seen) for arm in (node.body, node.orelse))
        if node in seen or not isinstance(node, (cst.Name, cst.Attribute)):
            return False
        is_held = isinstance(node, cst.Attribute) and node.attr.value == "module"
        values = self.facts.objects.values_of(node)
        return is_held or any(self._may_be_wrapped(value, seen | {node}) for value in values)

    def _attribute_creations(self, owner: Class) -> list[Creation]:
        """At the setups, where each starts a run of its own or stands in `__init__`; else at the end of `__init__`."""
        init = owner.methods.get("__init__")
        homes = list(dict.fromkeys(setup.statement.function for setup in self.setups))
        own = all(home.owner is owner and home.parameters for home in homes)
        if own and (init in homes[-1:] or self._are_runs(homes)):
            return [self._creation_at_setup(home) for home in ([init] if init in homes else homes)]
        creation = self._creation_in(init) if init is not None else None
        if creation is not None:
            return [creation]
        return [self._creation_at_setup(homes[-1])] if own else []

    def _creation_in(self, method: Function) -> Creation | None:
        """At a setup that stands in the method; at the end of a constructor, or before the first use in it."""
        if not method.parameters or not self.can_create(method):
            return None
        if any(setup.statement.function is method for setup in self.setups):
            return self._creation_at_setup(method)
        if method.name != "__init__":
            return None
        early = min(self.creations.uses_in(method), key=lambda use: use.path()[0].index, default=None)
        if early is not None:
            return Creation(method, early.path()[0], before=True)
        return Creation(method, method.body.statements[-1])

    def _creation_at_setup(self, method: Function) -> Creation:
        """Where nothing in the method uses the scaler, after the last setup, outside of all that it stands in."""
        own = [setup.statement for setup in self.setups if setup.statement.function is method]
        setup = max(own, key=lambda one: one.order)
        if self.creations.uses_in(method):
            return self.creations.at(method)
        return Creation(method, setup.path()[0])

    def _are_runs(self, homes: list[Function]) -> bool:
        """True for setups that each build an optimizer beside them, several or in a loop (rule A1)."""
        several = len(homes) > 1 or any(outer.is_loop for setup in self.setups for outer in setup.statement.path()[:-1])
        return several and all(
            any(
                isinstance(one.origin, cst.Call) and self.facts.tree.statement_of(one.origin).function is home
                for one in self.roles.optimizers
            )
            for home in homes
        )

    def in_place_of_handle(self, home: Function) -> Binding | None:
        """The constructor that was given the source's handle, where mixed precision is set up elsewhere: it is given
        the scaler.
        """
        given = [one for one in self.facts.tree.functions if one.name == "__init__" and self.passing.takes_handle(one)]
        owners = [one.owner for one in given if one.owner is not None]
        if not owners or home.owner in owners:
            return None
        methods = {method for one in given for method in self._methods_below(one)}
        return self.constructed(home, {*given, *methods}, given)

    def constructed(
        self, home: Function, given: Set[Function] = frozenset(), handing: Sequence[Function] = ()
    ) -> Binding | None:
        """A constructor that is given the scaler where an instance is made, and keeps it for the methods, those as well
        that are `given` it although they could see it; a function beside them that saves or loads its state is given
        it, too. Constructors of derived classes may be `handing` it on.
        """

        def is_inside(function: Function) -> bool:
            return home.encloses(function) and not any(method.encloses(function) for method in given)

        outside = [user for user in self.users if not is_inside(user)]
        inits = Constructors(self.facts, self._methods_of(outside)).constructors()
        unused = self._of_nobody(inits)
        handed = [init for init in handing if init not in unused]
        made = self._called_by_others(handed) or self._called_by_all(inits.difference(unused))
        if not made or not all(map(self.facts.calls.callers, made)):
            return None
        keeping = [*made, *unused]
        taken_up = [one for init in keeping if (one := self._takes_up(init)) is not None]
        if len(taken_up) < len(keeping):
            return None
        carriers = {
            method: carrier
            for one, (_, carrier) in zip(keeping, taken_up, strict=True)
            for method in self._methods_below(one)
            if method not in handing
        }
        helpers = [user for user in outside if not any(method.encloses(user) for method in (*carriers, *keeping))]
        if helpers and all(self.passing.only_keeps_state(user) for user in outside):  # nothing that trains
            return None
        if any(user.is_method or not self._can_be_given(user) for user in helpers):
            return None

        def sees(function: Function) -> bool:
            return is_inside(function) or any(method.encloses(function) for method in carriers)

        parameters, arguments = self.passing.through([*made, *helpers], sees)
        parameters += map(self.passing.new_parameter, unused)
        creation = self._before_calls(self.creations.at(home), [argument.call for argument in arguments])
        return Binding([creation], None, parameters, arguments, {}, carriers=carriers, taken_up=tuple(taken_up))

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
        method = self._method_of(user)
        return method is not None and method.owner is owner

    def _takes_up(self, init: Function) -> tuple[Statement, Carrier] | None:
        """After which statement a constructor keeps the scaler that it is given, and how the methods read it there."""
        kept = self._keeps_optimizer(init)
        if kept is None or not init.parameters or init.owner is None or not takes_attributes(self.facts, init.owner):
            return None
        return kept, Carrier(f"{init.parameters[0].name.value}.")

    def _can_be_given(self, helper: Function) -> bool:
        """True for a function beside the class that saves or loads a state, or was given the handle as well."""
        return self.passing.only_keeps_state(helper) or self.passing.takes_handle(helper)

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


def _before_returns(creation: Creation) -> Creation:
    """A method that returns early must not leave the instance without its scaler."""
    for statement in creation.function.body.statements[: creation.at.path()[0].index + 1]:
        if any(isinstance(inner.node, cst.Return) for inner in statement.descendants()):
            return Creation(creation.function, statement, before=True)
    return creation
