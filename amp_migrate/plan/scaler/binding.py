"""Where the scaler lives (rule A): created once, visible wherever it is used, never None.

In order of preference: a local variable of the function that sets mixed precision up (nested functions see
it), a global where the setup stands at module level, an attribute where the methods of one class use it, and
only then a parameter threaded through the calls from the function that dominates all uses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.calls import CallSite
from amp_migrate.facts.conditions import conjunction, without_not
from amp_migrate.facts.tree import Block, Class, Function, Statement, names_in
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Recognition, Setup
from amp_migrate.plan.regions.training import lowest_block
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.scaler.enabling import Enabling, enclosing_guards


@dataclasses.dataclass(frozen=True)
class Creation:
    """The scaler is created in `function`, after (or before) the statement `at`."""

    function: Function
    at: Statement
    before: bool = False


@dataclasses.dataclass(frozen=True)
class NewParameter:
    """A parameter that a function gains after `after`, or in the place of `replaces`."""

    function: Function
    after: cst.Param | None
    replaces: cst.Param | None = None


@dataclasses.dataclass(frozen=True)
class NewArgument:
    """An argument that a call gains at `index`, or in the place of `replaces`.

    `call` is the call, or the `partial` that binds the argument; `caller` the function it stands in.
    """

    call: cst.Call
    caller: Function
    index: int
    keyword: bool
    replaces: cst.Arg | None = None


@dataclasses.dataclass(eq=False)
class Binding:
    """Where the scaler is created, and what it is called in each function that uses it.

    An attribute has several creations where several methods start a run of their own.
    """

    creations: list[Creation]
    owner: Class | None  # set for an attribute of its instances
    parameters: list[NewParameter]
    arguments: list[NewArgument]
    receivers: dict[Function, str]
    family: frozenset[Class] = frozenset()

    @property
    def is_set_early(self) -> bool:
        """False for an attribute that an instance gets only when it starts to train."""
        return self.owner is None or self.creations[0].function.name == "__init__"

    def expression(self, function: Function, name: str) -> str | None:
        """How `function` reads the thing bound as `name`; None where it cannot see it."""
        if any(parameter.function.encloses(function) for parameter in self.parameters):
            return name
        if self.owner is not None:
            receiver = self._receiver(function)
            return f"{receiver}.{name}" if receiver is not None else None
        return name if any(creation.function.encloses(function) for creation in self.creations) else None

    def _receiver(self, function: Function) -> str | None:
        """The instance in a function: one that uses it already, or any method of the class."""
        if function in self.receivers:
            return self.receivers[function]
        method: Function | None = function
        while method is not None and not method.is_method:
            method = method.parent
        if method is not None and method.owner in self.family and method.parameters:
            return method.parameters[0].name.value
        return None


Users = dict[Function, list[Statement]]


class Binder:
    """Finds the scaler's home for the setups and the functions that use it.

    `asking` are functions with an autocast region that reads a parameter as its condition; `can_create` tells
    whether the settings of the scaler are known in a function.
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
    ) -> None:
        self.facts = facts
        self.found = found
        self.roles = roles
        self.enabling = enabling
        self.setups = [setup for setup in found.setups if setup.optimizers]
        self.users = dict(users)
        self.asking = asking
        self.can_create = can_create
        self.home = self.setups[0].statement.function

    def bind(self) -> Binding:
        """Raises Refusal where the uses cannot all be reached."""
        if self.home.is_module or all(self.home.encloses(user) for user in self.users):
            return self._local(self.home)
        if self.home.is_method:
            attribute = self._attribute(self.home.owner)
            if attribute is not None:
                return attribute
        owners = {self._method_of(user).owner for user in self.users if self._method_of(user) is not None}  # type: ignore[union-attr]
        if len(owners) == 1 and all(self._method_of(user) is not None for user in self.users):
            attribute = self._attribute(owners.pop())
            if attribute is not None:
                return attribute
        return self._threaded()

    # -- a variable -------------------------------------------------------------------------------------

    def _local(self, function: Function) -> Binding:
        return Binding([self._creation(function)], None, [], [], {})

    def _creation(self, function: Function) -> Creation:
        """After the setup, lifted out of its guards and of everything that does not also hold the uses."""
        setups = [place for setup in self.setups if (place := self._place_of(setup, function)) is not None]
        uses = [place for place in self._uses_in(function) if not any(place is setup for setup in setups)]
        block = lowest_block([*setups, *uses])
        loop = self._loop_to_leave(block, function)
        if loop is not None:
            return Creation(function, loop, before=True)
        lifted = [statement for place in setups for statement in place.path() if statement.block is block]
        at = max(lifted, key=lambda statement: statement.index)
        calls_user = self.home is not function and any(place in self._uses_in(function) for place in setups)
        if calls_user or any(use.inside(holder) for use in uses for holder in lifted):
            first = min(lifted, key=lambda statement: statement.index)
            return Creation(function, first, before=True)  # what sets up uses the scaler, too
        for place in setups:
            self._check_conditions(place, lifted, uses)
        self._check_order(block, at, uses)
        return Creation(function, at)

    def _check_conditions(self, place: Statement, lifted: list[Statement], uses: list[Statement]) -> None:
        """A condition around the setup that is no guard is lost, unless what uses the scaler has it as well."""
        for guard in enclosing_guards(self.facts, place):
            if not any(guard.statement.inside(holder) for holder in lifted) or self._builds_optimizer(guard.statement):
                continue  # without it, there would be no optimizer to step
            for use in uses:
                known = conjunction([other.formula for other in enclosing_guards(self.facts, use)])
                if not self.facts.conditions.implies(known, guard.formula):
                    raise Refusal(
                        "AMP905",
                        guard.statement.node,
                        "amp.initialize runs under a condition that does not guard its steps",
                    )

    def _place_of(self, setup: Setup, function: Function) -> Statement | None:
        """Where a setup happens in `function`, seen from outside of its guards (rule A2)."""
        guards = [guard.statement for guard in self.enabling.setup_guards[setup]]
        place = self._place_in(setup.statement, function)
        while place is not None:
            outer = next((guard for guard in guards if place is not guard and place.inside(guard)), None)
            if outer is None:
                return place
            place = outer
        return None

    def _place_in(self, statement: Statement, function: Function) -> Statement | None:
        """Where a statement happens in `function`: itself, or the call that leads to it."""
        if statement.function is function:
            return statement
        for candidate in function.body.statements:
            for inner in candidate.descendants():
                for site in self.facts.calls.in_statement(inner):
                    if any(reached is statement.function for reached in self.facts.calls.reachable(site.callee)):
                        return inner
        return None

    def _uses_in(self, function: Function) -> list[Statement]:
        """The statements of `function` that use the scaler or call something that does."""
        found = list(self.users.get(function, []))
        outside = {user for user in self.users if user is not function}
        for candidate in function.body.statements:
            for inner in candidate.descendants():
                for site in self.facts.calls.in_statement(inner):
                    if self.facts.calls.reaches(site.callee, outside.__contains__):
                        found.append(inner)
                nested = self.facts.tree.function_at.get(inner.node)
                if nested is None or self.facts.calls.callers(nested):
                    continue  # its calls count
                if any(nested.encloses(user) for user in outside):
                    found.append(inner)
        return found

    def _loop_to_leave(self, block: Block, function: Function) -> Statement | None:
        """The loop around setup and uses, unless each round builds an optimizer of its own (rule A1)."""
        outermost: Statement | None = None
        owner = block.owner
        while owner is not None:
            if owner.is_loop and not self._builds_optimizer_each_round(owner):
                outermost = owner
            owner = owner.block.owner
        return outermost

    def _builds_optimizer_each_round(self, loop: Statement) -> bool:
        """False where only some round does: `if epoch == first:`."""
        target = names_in(loop.node.target) if isinstance(loop.node, cst.For) else set()
        for one in self.roles.optimizers:
            if isinstance(one.origin, cst.Call):
                statement = self.facts.tree.statement_of(one.origin)
                tests = [outer.node.test for outer in statement.path()[:-1] if isinstance(outer.node, cst.If)]
                if statement.inside(loop) and not any(names_in(test) & target for test in tests):
                    return True
        return False

    def _builds_optimizer(self, holder: Statement) -> bool:
        for one in self.roles.optimizers:
            if isinstance(one.origin, cst.Call) and self.facts.tree.statement_of(one.origin).inside(holder):
                return True
        return False

    def _check_order(self, block: Block, at: Statement, uses: Iterable[Statement]) -> None:
        for use in uses:
            lifted = next((statement for statement in use.path() if statement.block is block), None)
            if lifted is not None and lifted.index < at.index and not isinstance(lifted.node, cst.FunctionDef):
                raise Refusal(
                    "AMP914", use.node, "the scaler is used here before amp.initialize has run in this function"
                )

    # -- an attribute -----------------------------------------------------------------------------------

    def _method_of(self, function: Function) -> Function | None:
        current: Function | None = function
        while current is not None and not current.is_method:
            current = current.parent
        return current

    def _attribute(self, owner: Class | None) -> Binding | None:
        """An attribute of the class's instances; helpers that know no instance get a parameter."""
        creations = [_before_returns(one) for one in self._attribute_creations(owner)] if owner is not None else []
        if owner is None or not creations:
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
            function = self._threadable(user)
            if function in needing:
                continue
            callers = self.facts.calls.callers(function)
            if not callers or function.is_module or function.is_method:
                return None
            self._check_callers(function, callers)
            needing.append(function)
            waiting.extend(site.caller for site in callers)
        parameters = [self._new_parameter(function) for function in needing]
        arguments = [
            argument for parameter in parameters for argument in self._new_arguments(parameter, set(receivers), needing)
        ]
        root = self.facts.objects.root_class(owner)
        family = frozenset(cls for cls in self.facts.tree.classes if self.facts.objects.root_class(cls) is root)
        return Binding(creations, owner, parameters, arguments, receivers, family)

    def _receiver(self, function: Function, owner: Class) -> str | None:
        """An expression for the instance in a function: `self`, or `self.GAN` in another class."""
        root = self.facts.objects.root_class(owner)
        method = self._method_of(function)
        if method is not None and method.owner is not None and method.parameters:
            if self.facts.objects.root_class(method.owner) is root:
                return method.parameters[0].name.value
        for candidate in function.body.statements:
            for statement in candidate.descendants():
                for part in self.facts.tree.expressions(statement):
                    if isinstance(part, (cst.Name, cst.Attribute)) and self._is_instance(part, root):
                        return self.facts.text(part)
        return None

    def _is_instance(self, node: cst.BaseExpression, root: Class) -> bool:
        objects = self.facts.objects.objects(node)
        return len(objects) == 1 and all(one.kind == "instance" and one.origin is root for one in objects)

    def _attribute_creations(self, owner: Class) -> list[Creation]:
        """At the setups, where each starts a run of its own or stands in `__init__`; else at the end of `__init__`."""
        init = owner.methods.get("__init__")
        homes = list(dict.fromkeys(setup.statement.function for setup in self.setups))
        own = all(home.owner is owner and home.parameters for home in homes)
        if own and (init in homes[-1:] or self._are_runs(homes)):
            return [self._creation_at_setup(home) for home in ([init] if init in homes else homes)]
        if init is not None and init.parameters and self.can_create(init):
            early = min(self._uses_in(init), key=lambda use: use.path()[0].index, default=None)
            if early is not None:
                return [Creation(init, early.path()[0], before=True)]
            return [Creation(init, init.body.statements[-1])]
        return [self._creation_at_setup(homes[-1])] if own else []

    def _creation_at_setup(self, method: Function) -> Creation:
        """Where nothing in the method uses the scaler, outside of all that the setup stands in."""
        setup = next(setup.statement for setup in self.setups if setup.statement.function is method)
        if self._uses_in(method):
            return self._creation(method)
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

    # -- a parameter ------------------------------------------------------------------------------------

    def _threaded(self) -> Binding:
        owner = self._dominator()
        creation = self._creation(owner)
        needing = self._functions_between(owner)
        parameters = [self._new_parameter(function) for function in needing]
        seeing = {function for function in self.facts.tree.functions if owner.encloses(function)}
        arguments = [
            argument for parameter in parameters for argument in self._new_arguments(parameter, seeing, needing)
        ]
        return Binding([creation], None, parameters, arguments, {})

    def _dominator(self) -> Function:
        """The lowest function that leads to the setup and to every use."""
        candidates = [
            function
            for function in self.facts.tree.functions
            if self._leads_to(function, self.home) and all(self._leads_to(function, user) for user in self.users)
        ]
        for function in candidates:
            below = self.facts.calls.callees(function)
            if not any(other in below for other in candidates if other is not function):
                return function
        user = next(user for user in self.users if not self._leads_to(self.home, user))
        raise Refusal(
            "AMP914",
            self.users[user][0].node,
            f"no function of this file leads both to amp.initialize (in {self.home.name}) and to {user.name}",
        )

    def _leads_to(self, function: Function, target: Function) -> bool:
        return any(
            reached is target or (reached.encloses(target) and not reached.is_module)
            for reached in self.facts.calls.reachable(function)
        )

    def _functions_between(self, owner: Function) -> list[Function]:
        """The functions that must be given the scaler: the users and everything on the way to them."""
        needing: list[Function] = []
        waiting = [user for user in self.users if not owner.encloses(user)]
        while waiting:
            function = self._threadable(waiting.pop())
            if function in needing or owner.encloses(function):
                continue
            needing.append(function)
            callers = self.facts.calls.callers(function)
            self._check_callers(function, callers)
            for site in callers:
                if not owner.encloses(site.caller):
                    self._check_has_callers(function, site)
                    waiting.append(site.caller)
        return sorted(needing, key=self.facts.tree.functions.index)

    def _check_has_callers(self, function: Function, site: CallSite) -> None:
        caller = self._threadable(site.caller)
        if caller.is_module or not self.facts.calls.callers(caller):
            raise Refusal(
                "AMP914",
                site.call,
                f"{function.name} needs the scaler, and is called here (in {caller.name}) where there is none",
            )

    def _threadable(self, function: Function) -> Function:
        """The outermost function around a nested one: its own local functions see its parameters."""
        while function.parent is not None and not function.parent.is_module and function.owner is None:
            function = function.parent
        return function

    def _check_callers(self, function: Function, callers: list[CallSite]) -> None:
        values = self.facts.calls.value_uses(function)
        if values:
            raise Refusal(
                "AMP915",
                values[0],
                f"{function.name} needs the scaler as a parameter, but is passed on as a value here",
            )
        if not callers:
            raise Refusal(
                "AMP915",
                function.node,
                f"{function.name} needs the scaler as a parameter, but its callers are not in this file",
            )
        for site in callers:
            if any(arg.star and self.facts.objects.dict_behind(arg) is None for arg in site.call.args):
                raise Refusal(
                    "AMP915", site.call, f"{function.name} needs the scaler, but is called with starred arguments"
                )

    def _new_parameter(self, function: Function) -> NewParameter:
        carrier = self._carrier_parameter(function)
        if carrier is not None:
            return NewParameter(function, None, replaces=carrier)
        guard = self._useless_guard(function)
        if guard is not None:
            return NewParameter(function, None, replaces=guard)
        plain = [
            param for param in function.parameters if param.default is None and self._is_positional(function, param)
        ]
        optimizers = [param for param in plain if self._is_optimizer(param)]
        after = (optimizers or plain)[-1] if plain else None
        return NewParameter(function, after)

    def _is_positional(self, function: Function, param: cst.Param) -> bool:
        node = function.node
        return isinstance(node, cst.FunctionDef) and any(param is other for other in node.params.params)

    def _is_optimizer(self, param: cst.Param) -> bool:
        variable = self.facts.names.variable_at(param.name)
        return variable is not None and bool(self.facts.objects.variable_objects(variable) & self.roles.optimizers)

    def _carrier_parameter(self, function: Function) -> cst.Param | None:
        """A parameter that held apex's module or None holds the scaler now (rule A3)."""
        carriers = set(self.found.carriers)
        return next((param for param in function.parameters if param.name in carriers), None)

    def _useless_guard(self, function: Function) -> cst.Param | None:
        """A guard parameter that nothing reads any more gives its place to the scaler (rule A4)."""
        if any(function.encloses(other) for other in self.asking):
            return None
        tests = {
            without_not(backward.guard.test)
            for backward in self.found.backwards
            if backward.collapsed and backward.guard is not None and backward.statement.function is function
        }
        for param in function.parameters:
            variable = self.facts.names.variable_at(param.name)
            if variable is not None and variable.loads and all(load in tests for load in variable.loads):
                return param
        return None

    def _new_arguments(
        self, parameter: NewParameter, seeing: set[Function], needing: list[Function]
    ) -> Iterator[NewArgument]:
        partials: set[cst.Call] = set()
        for site in self.facts.calls.callers(parameter.function):
            visible = site.caller in seeing or any(function.encloses(site.caller) for function in needing)
            if not visible:
                raise Refusal(
                    "AMP914", site.call, f"{parameter.function.name} is called here, where there is no scaler"
                )
            if parameter.replaces is not None:
                yield from self._replaced_argument(site, parameter, partials)
            else:
                yield self._inserted_argument(site, parameter)

    def _replaced_argument(
        self, site: CallSite, parameter: NewParameter, partials: set[cst.Call]
    ) -> Iterator[NewArgument]:
        assert parameter.replaces is not None
        arg = self.facts.objects.argument(site.call, parameter.function, parameter.replaces)
        if arg is None:
            raise Refusal(
                "AMP915", site.call, f"this call of {parameter.function.name} leaves out a parameter that must be given"
            )
        call = self.facts.tree.parents[arg]
        assert isinstance(call, cst.Call)
        if call not in partials:
            partials.add(call)
            yield NewArgument(call, self.facts.tree.function_of(call), 0, arg.keyword is not None, arg)

    def _inserted_argument(self, site: CallSite, parameter: NewParameter) -> NewArgument:
        """After the argument for the parameter before it, in the same manner: by position or by name."""
        if parameter.after is None:
            return NewArgument(site.call, site.caller, 0, False)
        arg = self.facts.objects.argument(site.call, parameter.function, parameter.after)
        starred = next((index for index, given in enumerate(site.call.args) if given.star), None)
        if arg is not None and arg not in site.call.args and starred is not None:
            return NewArgument(site.call, site.caller, starred, True)
        if arg is None or arg not in site.call.args:
            raise Refusal(
                "AMP915", site.call, f"the place of the scaler in this call of {parameter.function.name} is not clear"
            )
        index = site.call.args.index(arg) + 1
        by_name = arg.keyword is not None
        return NewArgument(site.call, site.caller, index, by_name)


def _before_returns(creation: Creation) -> Creation:
    """A method that returns early must not leave the instance without its scaler."""
    for statement in creation.function.body.statements[: creation.at.path()[0].index + 1]:
        if any(isinstance(inner.node, cst.Return) for inner in statement.descendants()):
            return Creation(creation.function, statement, before=True)
    return creation
