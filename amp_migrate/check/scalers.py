"""Native AMP in the files of a unit: their scalers, and what statements do with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.objects import Object, ObjectSet
from amp_migrate.facts.tree import Statement, called_name, names_in, walk
from amp_migrate.vocabulary import GRADIENT_CLIPS


@dataclasses.dataclass(frozen=True)
class Event:
    """One thing that a statement does to gradients.

    `kind` is backward, plain backward, unscale, step, update, bare step or clip; `optimizer` the key of the
    optimizer that it is about, where it is about one. `each` marks a statement in a loop over optimizers: every
    round is about another one. An update with a `value` sets the scale, and needs nothing to have been stepped.
    """

    kind: str
    node: cst.Call
    optimizer: str | None = None
    each: bool = False
    has_value: bool = False


class Scalers:
    """The GradScalers of some files and the events of their statements."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.creations = [
            part
            for statement in facts.tree.all_statements()
            for part in facts.tree.expressions(statement)
            if isinstance(part, cst.Call) and (facts.names.dotted(part.func) or "").endswith(".GradScaler")
        ]
        self.created_at = {facts.tree.statement_of(node) for node in self.creations}
        self.objects: ObjectSet = frozenset(Object("call", node) for node in self.creations)
        self._optimizers: dict[str, ObjectSet] = {}
        self.events: dict[Statement, list[Event]] = {}
        for statement in facts.tree.all_statements():
            self._collect(statement, self._scaler_event)
        for statement in facts.tree.all_statements():  # with all optimizers known
            self._collect(statement, self._other_event)

    @cached_property
    def built_at(self) -> dict[Statement, set[str]]:
        """The optimizers that a statement builds: whatever the name meant before, their gradients are new."""
        built: dict[Statement, set[str]] = {}
        for key, objects in self._optimizers.items():
            for one in objects:
                if isinstance(one.origin, cst.Call):
                    built.setdefault(self.facts.tree.statement_of(one.origin), set()).add(key)
        return built

    @property
    def optimizers(self) -> list[str]:
        return sorted(self._optimizers)

    def _collect(self, statement: Statement, reader: Callable[[cst.Call], Event | None]) -> None:
        for part in self.facts.tree.expressions(statement):
            if isinstance(part, cst.Call):
                event = reader(part)
                if event is not None:
                    self.events.setdefault(statement, []).append(event)

    def _scaler_event(self, call: cst.Call) -> Event | None:
        func = call.func
        if not isinstance(func, cst.Attribute):
            return None
        method = func.attr.value
        if method == "backward" and self._is_scaled(func.value):
            return Event("backward", call)
        if not self._is_scaler(func.value):
            return None
        if method == "update":
            return Event("update", call, has_value=bool(call.args))
        if method in ("unscale_", "step") and call.args:
            optimizer = call.args[0].value
            kind = "unscale" if method == "unscale_" else "step"
            return Event(kind, call, self._key(optimizer), each=self._is_loop_variable(call, optimizer))
        return None

    def _is_loop_variable(self, call: cst.Call, optimizer: cst.BaseExpression) -> bool:
        """True where an enclosing `for` names the optimizer: each round is about another one."""
        names = names_in(optimizer)
        outer = self.facts.tree.statement_of(call).path()[:-1]
        return any(isinstance(loop.node, cst.For) and names & names_in(loop.node.target) for loop in outer)

    def _is_own(self, call: cst.Call) -> bool:
        """True for a function of the unit: what it does is seen inside it."""
        return self.facts.objects.called_function(call) is not None

    def _other_event(self, call: cst.Call) -> Event | None:
        func = call.func
        if called_name(call) in GRADIENT_CLIPS and not self._is_own(call) and not self._is_rescaled(call):
            return Event("clip", call)
        if not isinstance(func, cst.Attribute):
            return None
        if func.attr.value == "backward" and not self._is_own(call) and self._is_plain(func.value):
            return Event("plain backward", call)
        if func.attr.value == "step" and not call.args and not self._is_scaler(func.value):
            objects = self.facts.objects.objects(func.value)
            for key, known in self._optimizers.items():
                if objects and objects <= known:
                    return Event("bare step", call, key)
        return None

    def _is_scaler(self, node: cst.BaseExpression) -> bool:
        return isinstance(node, (cst.Name, cst.Attribute)) and self.facts.objects.may_be(node, self.objects)

    def _is_scaled(self, node: cst.BaseExpression) -> bool:
        """`scaler.scale(loss)`, or a name that is bound to it."""
        if isinstance(node, cst.Name):
            values = self.facts.objects.values_of(node)
            return bool(values) and all(isinstance(value, cst.Call) and self._is_scaled(value) for value in values)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            return node.func.attr.value == "scale" and self._is_scaler(node.func.value)
        return False

    def _is_plain(self, node: cst.BaseExpression) -> bool:
        """True where every value that a loss may have is known, and none is a scaled one."""
        values = self.facts.objects.values_of(node) if isinstance(node, (cst.Name, cst.Attribute)) else [node]
        calls = (part for value in values for part in walk(value) if isinstance(part, cst.Call))
        return bool(values) and all(called_name(call) != "scale" for call in calls)

    def _key(self, optimizer: cst.BaseExpression) -> str:
        """One key for all expressions that may mean the same optimizer."""
        objects = self.facts.objects.objects(optimizer)
        for key, known in self._optimizers.items():
            if objects & known or (not objects and key == source_key(optimizer)):
                self._optimizers[key] = known | objects
                return key
        key = source_key(optimizer)
        self._optimizers[key] = objects
        return key

    def _is_rescaled(self, call: cst.Call) -> bool:
        """`clip_grad_norm_(params, C * scaler.get_scale())` knows that the gradients are scaled."""
        return any(
            isinstance(part, cst.Attribute) and part.attr.value == "get_scale"
            for arg in call.args
            for part in walk(arg)
        )


def autocast_items(facts: Facts, statement: Statement) -> Iterator[cst.Call]:
    """The autocast calls among the items of a `with` that can switch it on."""
    if isinstance(statement.node, cst.With):
        for item in statement.node.items:
            call = item.item
            if isinstance(call, cst.Call) and (facts.names.dotted(call.func) or "").split(".")[-1] == "autocast":
                enabled = next(
                    (a.value for a in call.args if a.keyword is not None and a.keyword.value == "enabled"), None
                )
                if enabled is None or source_key(enabled) != "False":
                    yield call
