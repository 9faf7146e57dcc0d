"""The scaler as an attribute of the objects that train, which create it themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Class, Function, Statement, called_name
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.scaler.binding import Binding, Creation
from amp_migrate.plan.scaler.carried import Carrier
from amp_migrate.plan.scaler.constructors import Constructors, methods_of
from amp_migrate.plan.scaler.creation import Creations
from amp_migrate.plan.scaler.enabling import enclosing_guards
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
        self.latch = creations.enabling.latch

    def owner(self, users: Iterable[Function]) -> Class | None:
        """The class of the methods that use it, or what their classes have in common; None where some user is no
        method. A function that only saves or loads its state is given it.
        """
        methods = [user.method for user in users if user.is_method or not self.passing.optional.only_keeps_state(user)]
        owners = [method.owner if method is not None else None for method in methods]
        above = [self.facts.objects.ancestors(owner) if owner is not None else set() for owner in owners]
        return max(
            set.intersection(*above) if above else (),
            key=lambda one: len(self.facts.objects.ancestors(one)),
            default=None,
        )

    def calling(self, users: Iterable[Function]) -> set[Function]:
        """The methods that use it, those that lead to other functions which do, and functions that nobody calls."""
        found, waiting = set[Function](), list(users)
        while waiting:
            user = waiting.pop()
            if user not in found:
                found.add(user)
                sites = self.facts.calls.callers(user.whole) if user.method is None else ()
                waiting.extend(site.caller for site in sites)
        return {one for one in found if one.method is not None or not self.facts.calls.callers(one)}

    def attribute(self, owner: Class | None, *, with_helpers: bool = False) -> Binding | None:
        """An attribute of the class's instances; functions that know no instance get a parameter, and `with_helpers`
        methods of other classes that only this one calls.
        """
        if owner is None:
            return None
        line = self._line_of(owner)
        own = [method for method in methods_of(self.users) if method.owner in line]
        found = Constructors(self.facts, own).completed(self._attribute_creations(owner), self._creation_in)
        creations = [self._before_returns(one) for one in found]
        created = [creation.function.owner for creation in creations if creation.function.owner is not None]
        if not creations or not all(takes_attributes(self.facts, one) for one in created):
            return None
        reached = self._reached(owner, creations, with_helpers=with_helpers)
        if reached is None:
            return None
        receivers, needing = reached
        if any(self._is_made_later(receivers[caller], use) for caller, use in self._reads(receivers, needing)):
            return None
        reading = [method for method in methods_of(receivers) if method.owner in line]
        if not Constructors(self.facts, reading).all_have_one(creations):
            return None
        parameters = [self.passing.new_parameter(function) for function in needing]
        arguments = self.passing.arguments(
            parameters, lambda caller: caller in receivers or any(function.encloses(caller) for function in needing)
        )
        family = [cls for one in created for cls in self._line_of(one)]
        absent = self._absent(creations)
        return Binding(creations, owner, parameters, arguments, receivers, frozenset(family), absent=absent)

    def _reached(
        self, owner: Class, creations: list[Creation], *, with_helpers: bool
    ) -> tuple[dict[Function, str], list[Function]] | None:
        """The functions that know an instance, each with the text for it, and those that get a parameter; None where
        one of the users can have neither.
        """
        receivers = {creation.function: creation.function.parameters[0].name.value for creation in creations}
        needing: list[Function] = []
        waiting = list(self.users)
        while waiting:
            user = waiting.pop()
            receiver = self._receiver(user, owner)
            if receiver is not None:
                if self._may_be_given_another(user, receiver):
                    return None
                receivers[user] = receiver
                continue
            function = user.whole
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
        return receivers, needing

    def _may_be_given_another(self, user: Function, receiver: str) -> bool:
        """True for `train(model, trainer)` that files outside of the unit use: nobody knows what trainer they have."""
        function = user.whole
        if user.method is not None or not self.facts.is_used_outside(function):
            return False
        return any(param.name.value == receiver.partition(".")[0] for param in function.parameters)

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
        callers = [site.caller.method for site in self.facts.calls.callers(method)]
        own = all(one is not None and one.owner in self._line_of(owner) for one in callers)
        return own and len(self._line_of(method.owner)) == 1

    def _line_of(self, owner: Class) -> frozenset[Class]:
        """The class with those that it inherits from or that inherit from it; not its siblings."""
        return frozenset(self.facts.objects.ancestors(owner)).union(self.facts.objects.derived(owner))

    def _receiver(self, function: Function, owner: Class) -> str | None:
        """An expression for the instance in a function: `self`, or `self.GAN` in another class."""
        root, line = self.facts.objects.root_class(owner), self._line_of(owner)
        method = function.method
        if method is not None and method.owner in line:
            return method.instance
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
        if self.latch is not None and all(home.owner is owner and home.parameters for home in self.latch.homes):
            return [self._creation_at_latch(home) for home in self.latch.homes]
        init = owner.methods.get("__init__")
        homes = list(dict.fromkeys(setup.statement.function for setup in self.setups))
        own = all(home.owner is owner and home.parameters for home in homes)
        if own and (init in homes[-1:] or self._are_runs(homes)):
            return [self._creation_at_setup(home) for home in ([init] if init in homes else homes)]
        creation = self._creation_in(init) if init is not None else None
        if creation is not None:
            return [creation]
        return [self._creation_at_setup(homes[-1])] if own else []

    def _creation_at_latch(self, method: Function) -> Creation:
        """Where the flag is set: outside of tests that hold where it is up, and inside of others."""
        assert self.latch is not None
        setup = next(one.statement for one in self.latch.setups if one.statement.function is method)
        guards = enclosing_guards(self.facts, setup)
        follow = all(self.facts.conditions.implies(self.latch.formula, guard.formula) for guard in guards)
        return Creation(method, setup.path()[0] if follow and not _returns(setup.path()[0]) else setup)

    def _is_at_latch(self, creation: Creation) -> bool:
        return self.latch is not None and creation.function in self.latch.homes

    def _absent(self, creations: list[Creation]) -> tuple[tuple[Statement, Carrier], ...]:
        """Where a flag is put down that goes up at the creations, there is a scaler that is off."""
        if self.latch is None or not self._is_at_latch(creations[0]):
            return ()
        receivers = [(one, one.function.receiver) for one in self.latch.down]
        return tuple((one, Carrier(f"{name}." if name is not None else "")) for one, name in receivers)

    def _before_returns(self, creation: Creation) -> Creation:
        """A method that returns early must not leave the instance without its scaler; that of a flag which is not set
        by then is as good as it was.
        """
        first = 0
        if self._is_at_latch(creation):
            assert self.latch is not None
            if self.latch.is_up:
                return creation
            first = max(one.path()[0].index for one in self.latch.raising if one.function is creation.function) + 1
        for statement in creation.function.body.statements[first : creation.at.path()[0].index + 1]:
            if _returns(statement):
                return Creation(creation.function, statement, before=True)
        return creation

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


def _returns(statement: Statement) -> bool:
    return any(isinstance(inner.node, cst.Return) for inner in statement.descendants())
