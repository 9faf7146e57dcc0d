"""The scaler as a parameter: which functions need it, where it stands in their signatures and in their calls (A4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.calls import CallSite
from amp_migrate.facts.conditions import without_not
from amp_migrate.facts.elsewhere import shown
from amp_migrate.facts.tree import Function, names_in
from amp_migrate.facts.values import literal_value
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Recognition
from amp_migrate.plan.roles import Roles
from amp_migrate.plan.scaler.binding import NewArgument, NewParameter, Users
from amp_migrate.plan.scaler.optional import Optional, is_none
from amp_migrate.rules.scaler import SCALER_CANNOT_PASS, UNKNOWN_SCALER

# Decorators that leave a signature as it is, or pass on whatever they get.
_TRANSPARENT = frozenset("staticmethod classmethod abstractmethod no_grad enable_grad inference_mode record".split())
Sees = Callable[[Function], bool]


class Passing:
    """Hands the scaler through the calls.

    `users` are all functions that name it, `asking` those with an autocast region that reads a parameter as its
    condition.
    """

    def __init__(self, facts: Facts, found: Recognition, roles: Roles, users: Users, asking: set[Function]) -> None:
        self.facts = facts
        self.found = found
        self.roles = roles
        self.users = users
        self.asking = asking
        self.optional = Optional(facts, found, roles, users)

    def through(self, users: Iterable[Function], sees: Sees) -> tuple[list[NewParameter], list[NewArgument]]:
        """What changes so that the users get the scaler from the functions that see it. Raises Refusal."""
        needing = self._needing(users, sees)
        parameters = [self.new_parameter(function) for function in needing]
        return parameters, self.arguments(parameters, lambda caller: sees(caller) or _is_below(caller, needing))

    def arguments(self, parameters: list[NewParameter], sees: Sees) -> list[NewArgument]:
        """The arguments for new parameters, at every call. Raises Refusal for a call where there is no scaler."""
        found = (argument for parameter in parameters for argument in self._new_arguments(parameter, sees))
        return self._of_tables(list(dict.fromkeys(found)))  # several calls of one partial

    def _of_tables(self, arguments: list[NewArgument]) -> list[NewArgument]:
        """One for each call: all that `TRAINERS[name](model)` may run take the scaler at one place. Raises Refusal."""
        by_call: dict[cst.Call, list[NewArgument]] = {}
        for one in arguments:
            by_call.setdefault(one.call, []).append(one)
        for call, found in by_call.items():
            places = {(one.index, one.keyword, one.replaces) for one in found}
            run = self.facts.objects.alternatives(call)
            if len(run) > 1 and (len(places) > 1 or {one.function for one in found} != set(run)):
                text = self.facts.text(call.func)
                message = f"{text} may be a function that takes no scaler, or takes it at another place"
                raise Refusal(SCALER_CANNOT_PASS, call, message)
        tables = {call: found[0] for call, found in by_call.items() if len(self.facts.objects.alternatives(call)) > 1}
        return [one for one in arguments if tables.get(one.call, one) is one]

    def _needing(self, users: Iterable[Function], sees: Sees) -> list[Function]:
        """The functions that must be given the scaler: the users and everything on the way to them."""
        needing: list[Function] = []
        waiting = [user for user in users if not sees(user)]
        while waiting:
            function = waiting.pop().whole
            if function in needing or sees(function):
                continue
            needing.append(function)
            self.check_callers(function)
            for site in self.giving(function):
                giver = self._giver(site, self.new_parameter(function))
                if not sees(giver):
                    self._check_has_callers(function, site)
                    waiting.append(giver)
        return sorted(needing, key=self.facts.tree.functions.index)

    def _check_has_callers(self, function: Function, site: CallSite) -> None:
        caller = site.caller.whole
        if caller.is_module or not (self.facts.calls.callers(caller) or self.is_run_elsewhere(caller)):
            message = f"{function.name} needs the scaler, and is called here (in {caller.name}) where there is none"
            raise Refusal(UNKNOWN_SCALER, site.call, message)

    def is_run_elsewhere(self, function: Function) -> bool:
        """True for what nothing calls here, and another script does; or nobody, where it is a method of what scripts
        train with by others, and no base class out of sight can call it.
        """
        if function.is_module or self.facts.calls.callers(function):
            return False
        owner = function.owner
        if self.facts.is_used_outside(function) or owner is None or function.name.startswith("__"):
            return self.facts.is_used_outside(function)
        is_own = len(self.facts.objects.bases(owner)) == len(owner.node.bases)
        return is_own and any(self._is_called_from_outside(one) for one in owner.methods.values())

    def _is_called_from_outside(self, method: Function) -> bool:
        """True where something else than its class calls a method, other than to make an object."""
        callers = [site.caller.owner for site in self.facts.calls.callers(method)]
        is_called = any(owner is not method.owner for owner in callers) or self.facts.is_used_outside(method)
        return is_called and not method.name.startswith("__")

    def check_callers(self, function: Function) -> None:
        """Raises Refusal for a function that somebody may call in a way that is not known."""
        callers = self.facts.calls.callers(function)
        values = self.facts.calls.value_uses(function)
        if values:
            how = (
                "looked up by its name" if isinstance(values[0], (cst.Call, cst.Subscript)) else "passed on as a value"
            )
            message = f"{function.name} needs the scaler as a parameter, but is {how} here"
            stars = self.facts.names.star_imports.get(self.facts.tree.root_of(values[0]), [])
            raise Refusal(SCALER_CANNOT_PASS, values[0], message, tuple(stars))
        if not callers and not self.is_run_elsewhere(function):
            message = f"{function.name} needs the scaler as a parameter, but its callers are not known"
            raise Refusal(SCALER_CANNOT_PASS, function.node, message)
        self._check_decorators(function)
        for site in callers:
            other = self._other_class(site.call) if function.is_method else None
            if other is not None:
                message = f"{function.name} needs the scaler, and may be that of {other} here, which does not take it"
                raise Refusal(SCALER_CANNOT_PASS, site.call, message)
            if any(arg.star and not self._takes_named(function, arg) for arg in site.call.args):
                message = f"{function.name} needs the scaler, but is called with starred arguments"
                raise Refusal(SCALER_CANNOT_PASS, site.call, message)

    def _other_class(self, call: cst.Call) -> str | None:
        """The class of another file, outside of the unit, that the object of a method may be of."""
        receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
        if receiver is None or self.facts.objects.exact_class(receiver) is not None:
            return None
        return next(map(shown, filter(self.facts.elsewhere.is_there, self.facts.made_by(receiver))), None)

    def _takes_named(self, function: Function, starred: cst.Arg) -> bool:
        """True for `**settings`, beside which an argument can stand by its name: nothing in there has the name of a
        parameter that is new, or the function takes whatever it is given.
        """
        if self.facts.objects.dict_behind(starred) is not None:
            return True
        return starred.star == "**" and function.signature.star_kwarg is None

    def _check_decorators(self, function: Function) -> None:
        """What a decorator puts around a function must take one argument more; who calls a lambda may be anybody."""
        if function.is_lambda:
            text = self.facts.text(function.node)
            raise Refusal(SCALER_CANNOT_PASS, function.node, f"{text} needs the scaler, and is no function with a name")
        for decorator in function.decorators:
            node = decorator.decorator
            named = node.func if isinstance(node, cst.Call) else node
            if names_in(named) & _TRANSPARENT or self._takes_anything(named):
                continue
            message = (
                f"{function.name} needs the scaler, and what {self.facts.text(named)} puts around it may not take it"
            )
            raise Refusal(SCALER_CANNOT_PASS, decorator, message)

    def _takes_anything(self, decorator: cst.BaseExpression) -> bool:
        """True for a decorator of the unit with a `def inner(*args, **kwargs)`."""
        maker = self.facts.objects.function_named(decorator)
        inner = [
            one for one in self.facts.tree.functions if maker is not None and maker is not one and maker.encloses(one)
        ]
        return any(_takes_any(one.signature) for one in inner)

    def new_parameter(self, function: Function) -> NewParameter:
        carrier = self._carrier_parameter(function)
        if carrier is not None:
            left_out = len(self.giving(function)) < len(self.facts.calls.callers(function))
            is_optional = left_out or _follows_a_default(function, carrier)
            return NewParameter(function, None, replaces=carrier, is_optional=is_optional)
        optional = self.optional.optimizer(function)
        if optional is not None:
            return NewParameter(function, optional, is_optional=optional.default is not None, may_be_none=True)
        guard = self._useless_guard(function)
        if guard is not None:
            return NewParameter(function, None, replaces=guard)
        plain = [
            param for param in function.parameters if param.default is None and self._is_positional(function, param)
        ]
        optimizers = [param for param in plain if self._holds_optimizer(param)]
        called_so = [param for param in plain if "optim" in param.name.value]  # not every script passes one
        after = (optimizers or called_so or plain)[-1] if plain else None
        return NewParameter(function, after)

    def _is_positional(self, function: Function, param: cst.Param) -> bool:
        return any(param is other for other in function.signature.params)

    def _holds_optimizer(self, param: cst.Param) -> bool:
        variable = self.facts.names.variable_at(param.name)
        return variable is not None and bool(self.facts.objects.variable_objects(variable) & self.roles.optimizers)

    def giving(self, function: Function) -> list[CallSite]:
        """The calls that have to pass the scaler: not those that left out a handle that was None by default, nor those
        that leave out the optimizer whose state it goes with.
        """
        sites = self.facts.calls.callers(function)
        carrier = self._carrier_parameter(function)
        if carrier is None:
            optional = self.optional.optimizer(function)
            return [site for site in sites if optional is None or self.optional.gives(site, function, optional)]
        if carrier.default is None or literal_value(carrier.default) is not None:
            return sites
        return [site for site in sites if self.facts.objects.argument(site.call, function, carrier) is not None]

    def takes_handle(self, function: Function) -> bool:
        """True for a function with a parameter for apex's module or its old handle."""
        return self._carrier_parameter(function) is not None

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

    def _new_arguments(self, parameter: NewParameter, sees: Sees) -> Iterator[NewArgument]:
        partials: set[cst.Call] = set()
        for site in self.giving(parameter.function):
            if not sees(self._giver(site, parameter)):
                message = f"{parameter.function.name} is called here, where there is no scaler"
                raise Refusal(UNKNOWN_SCALER, site.call, message)
            if parameter.replaces is not None:
                yield from self._replaced_argument(site, parameter, partials)
            else:
                yield self._inserted_argument(site, parameter)
        if parameter.after is not None and parameter.after is self.optional.optimizer(parameter.function):
            for site in self.facts.calls.callers(parameter.function):
                yield from self._none_argument(site, parameter.function, parameter.after)

    def _none_argument(self, site: CallSite, function: Function, optimizer: cst.Param) -> Iterator[NewArgument]:
        """None for the scaler of a call that gives None for the optimizer, unless that is its default and nothing that
        would take its place comes after it.
        """
        arg = self.facts.objects.argument(site.call, function, optimizer)
        if arg is None or not is_none(arg.value) or arg not in site.call.args:
            return
        index = site.call.args.index(arg) + 1
        is_followed = any(other.keyword is None for other in site.call.args[index:])
        if optimizer.default is None or (arg.keyword is None and is_followed):
            yield NewArgument(function, site.call, site.caller, index, arg.keyword is not None, is_none=True)

    def _replaced_argument(
        self, site: CallSite, parameter: NewParameter, partials: set[cst.Call]
    ) -> Iterator[NewArgument]:
        assert parameter.replaces is not None
        arg = self.facts.objects.argument(site.call, parameter.function, parameter.replaces)
        if arg is None:
            message = f"this call of {parameter.function.name} leaves out a parameter that must be given"
            raise Refusal(SCALER_CANNOT_PASS, site.call, message)
        call = self.facts.tree.parents[arg]
        assert isinstance(call, cst.Call)
        if call not in partials:
            partials.add(call)
            yield NewArgument(
                parameter.function, call, self.facts.tree.function_of(call), 0, arg.keyword is not None, arg
            )

    def _is_instance(self, function: Function, param: cst.Param, site: CallSite) -> bool:
        """True for the `self` of a method that is called on its object: no argument stands for it."""
        is_first = function.is_method and function.parameters[0] is param
        return is_first and isinstance(site.call.func, cst.Attribute) and not site.call.args

    def _given_at(self, site: CallSite, parameter: NewParameter) -> cst.Call:
        """The call that gets the argument: where there is a `partial`, the one that gives the parameter before it."""
        func = site.call.func
        bound = self.facts.objects.partial_behind(func) if isinstance(func, cst.Name) else None
        before = parameter.after
        arg = self.facts.objects.argument(site.call, parameter.function, before) if bound and before else None
        return site.call if bound is None or arg in site.call.args else bound

    def _giver(self, site: CallSite, parameter: NewParameter) -> Function:
        return self.facts.tree.function_of(self._given_at(site, parameter))

    def _inserted_argument(self, site: CallSite, parameter: NewParameter) -> NewArgument:
        """After the argument for the parameter before it, in the same manner: by position or by name."""
        call = self._given_at(site, parameter)
        if parameter.after is None or self._is_instance(parameter.function, parameter.after, site):
            first = 0 if call is site.call else 1  # the function itself is given to `partial` before
            return NewArgument(parameter.function, call, self._giver(site, parameter), first, False)
        arg = self.facts.objects.argument(site.call, parameter.function, parameter.after)
        starred = next((index for index, given in enumerate(site.call.args) if given.star), None)
        if (arg is None or arg not in site.call.args) and starred is not None and call is site.call:
            return NewArgument(parameter.function, site.call, site.caller, starred, True)
        if arg is None or arg not in call.args:
            message = f"the place of the scaler in this call of {parameter.function.name} is not clear"
            raise Refusal(SCALER_CANNOT_PASS, site.call, message)
        index = call.args.index(arg) + 1
        by_name = arg.keyword is not None
        return NewArgument(parameter.function, call, self._giver(site, parameter), index, by_name)


def _takes_any(params: cst.Parameters) -> bool:
    return isinstance(params.star_arg, cst.Param) and isinstance(params.star_kwarg, cst.Param)


def _follows_a_default(function: Function, param: cst.Param) -> bool:
    """True for a parameter that needs a default because one before it has one: `def save(model=None, amp=None)`."""
    positional = list(function.signature.params)
    before = positional[: positional.index(param)] if param in positional else []
    return any(one.default is not None for one in before)


def _is_below(function: Function, others: list[Function]) -> bool:
    return any(other.encloses(function) for other in others)
