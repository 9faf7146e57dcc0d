"""Where no name tells the device of a plain loop, the models that went there do.

    built = build(settings)             moves the model, by a decision of its own
    Trainer(**built)                    self.scaler = GradScaler(enabled=next(model.parameters()).is_cuda)

Asked before it goes there, a model would say that it is on the CPU, and the training would stay in float32. So would
one that never goes there, beside another that does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object
from amp_migrate.facts.targets import targets_given
from amp_migrate.facts.tree import Class, Function, Statement, walk
from amp_migrate.plan.roles import Roles


@dataclasses.dataclass(frozen=True)
class _Until:
    """A place in a function: behind a statement, before it, or the end."""

    at: Statement | None
    before: bool

    def has_run(self, statement: Statement) -> bool:
        if self.at is None:
            return True
        return statement.order < self.at.order or (statement is self.at and not self.before)


class AskedModels:
    """Writes the question, where the models are certainly on their device by then."""

    def __init__(self, facts: Facts, roles: Roles) -> None:
        self.facts = facts
        self.roles = roles
        self._ways: dict[cst.Call, dict[cst.Call, Statement]] = {}

    def test(
        self, moves: Iterable[cst.Call], function: Function, at: Statement | None, *, before: bool = False
    ) -> str | None:
        """The question behind a statement of a function, before it, or at its end; None where a model may be moved
        later, or where the function knows of none that is.
        """
        moves, until = list(moves), _Until(at, before)
        if not all(self._is_moved(move, function, until) for move in moves):
            return None
        known = (one for one in self._bound(function, until) if self._is_model(one))
        model = next((one for one in known if any(self._moves(move, one) for move in moves)), None)
        return f"next({self.facts.text(model)}.parameters()).is_cuda" if model is not None else None

    # -- a model that the function knows ----------------------------------------------------------------

    def _bound(self, function: Function, until: _Until) -> Iterator[cst.BaseExpression]:
        """What a function gets, and what it sets in any case by then."""
        yield from (param.name for param in function.parameters)
        for statement in function.body.statements:
            if isinstance(statement.node, cst.Assign) and until.has_run(statement):
                for target in statement.node.targets:
                    yield from (one for one, _, _ in targets_given(target.target, None))

    def _is_model(self, node: cst.BaseExpression) -> bool:
        """True for what means a model that is trained, and nothing else, nor what has no `parameters()`."""
        if not isinstance(node, (cst.Name, cst.Attribute)):
            return False
        objects = self.facts.objects.objects(node)
        values = [one.value for one in self.facts.objects.values_of(node) if isinstance(one, cst.Name)]
        is_trained = bool(objects) and objects <= self.roles.trained
        return is_trained and "None" not in values and all(map(self._has_parameters, objects))

    def _has_parameters(self, one: Object) -> bool:
        """False for an instance of a class of the unit that inherits no such method, and has none."""
        if not isinstance(one.origin, Class) or self.facts.objects.method_of(one.origin, "parameters") is not None:
            return True
        return any(self.facts.text(base.value) != "object" for base in one.origin.node.bases)

    def _moves(self, move: cst.Call, model: cst.BaseExpression) -> bool:
        """True for `model.cuda()`, and where the class of a model moves it, or its parts."""
        objects = self.facts.objects.objects(model)
        own = self.facts.tree.function_of(move).owner
        if own is not None and any(one.origin is self.facts.objects.root_class(own) for one in objects):
            return True
        return isinstance(move.func, cst.Attribute) and self.facts.objects.may_be(move.func.value, objects)

    # -- when the models are moved ----------------------------------------------------------------------

    def _is_moved(self, move: cst.Call, function: Function, until: _Until) -> bool:
        """True where a move runs before, on some way that leads to the function, and nowhere after that."""
        leading = self._leading_to(move)
        here = [statement for statement in leading.values() if statement.function is function]
        if not all(map(until.has_run, here)):
            return False
        is_early = bool(here)
        seen = {function}
        waiting = list(self.facts.objects.possible_callers(function))
        while waiting:
            way, place = waiting.pop()
            for call, statement in leading.items():
                if statement.function is place.function and call is not way:
                    is_before = self._is_given(call, way) if statement is place else statement.order < place.order
                    if not is_before:
                        return False
                    is_early = True
            if place.function not in seen:
                seen.add(place.function)
                waiting += self.facts.objects.possible_callers(place.function)
        return is_early

    def _leading_to(self, move: cst.Call) -> dict[cst.Call, Statement]:
        """A move, and all calls that may lead to it."""
        if move not in self._ways:  # asked for every function that may create the scaler
            self._ways[move] = self._found_leading_to(move)
        return self._ways[move]

    def _found_leading_to(self, move: cst.Call) -> dict[cst.Call, Statement]:
        leading: dict[cst.Call, Statement] = {}
        waiting = [(move, self.facts.tree.statement_of(move))]
        while waiting:
            call, statement = waiting.pop()
            if call not in leading:
                leading[call] = statement
                waiting += self.facts.objects.possible_callers(statement.function)
        return leading

    def _is_given(self, call: cst.Call, to: cst.Call) -> bool:
        """True for what runs for an argument of a call: `Trainer(net.cuda())`."""
        return any(part is call for arg in to.args for part in walk(arg))
