"""Native AMP in the files of a unit: their scalers, and what statements do with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.check.unseen import Unseen
from amp_migrate.facts import Facts
from amp_migrate.facts.backwards import differentiated, is_backward
from amp_migrate.facts.clips import is_clip
from amp_migrate.facts.conditions import source_key
from amp_migrate.facts.each_once import each_once
from amp_migrate.facts.elements import are_different_elements, is_other_element
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.tree import Function, Statement, called_name, names_in, walk

_SCALERS = frozenset(("GradScaler", "ShardedGradScaler"))


@dataclasses.dataclass(frozen=True)
class Event:
    """One thing that a statement does to gradients.

    `kind` is backward, plain backward, unknown backward, unscale, step, update, bare step, own step, clip, zero_grad or
    unseen; `optimizer` the key of the optimizer that it is about, where it is about one; `scaler` what it calls. `each`
    marks a statement in a loop over optimizers: every round is about another one; and one that several holders of
    optimizers share. An update with a `value` sets the scale, and needs nothing to have been stepped. An own step is
    that of an optimizer that no scaler is ever given. Unseen is what other files may do to the optimizers of a scaler
    that they are given.
    """

    kind: str
    node: cst.Call
    optimizer: str | None = None
    scaler: ObjectSet = frozenset()
    each: bool = False
    has_value: bool = False


class Scalers:
    """The GradScalers of some files and the events of their statements.

    Where the files are not `whole`, others may use the same scalers: a parameter that is used as a scaler is one, and
    what is not in sight may do anything to a scaler that it can reach.
    """

    def __init__(self, facts: Facts, *, whole: bool) -> None:
        self.facts = facts
        self.whole = whole
        self.creations = [node for node in _creations(facts) if whole or not _is_disabled(node)]
        self.created_at = {facts.tree.statement_of(node) for node in self.creations}
        self.objects: ObjectSet = frozenset(one for node in self.creations for one in facts.objects.objects(node))
        if not whole:
            self.objects |= frozenset(_scalers_by_use(facts))
        self._optimizers: dict[str, ObjectSet] = {}
        self._named: dict[str, cst.BaseExpression] = {}  # the expression that a key was made of
        self._scaled_by: dict[str, ObjectSet] = {}
        self.events: dict[Statement, list[Event]] = {}
        for statement in facts.tree.all_statements():
            self._collect(statement, self._scaler_event)
        if not whole:
            self._add_lonely_optimizer()
        unseen = Unseen(facts, self.objects) if not whole else None
        for statement in facts.tree.all_statements():  # with all optimizers known
            self._collect(statement, self._other_event)
            if unseen is not None:
                self._collect(statement, lambda call: self._unseen_event(call, unseen))

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
    def functions(self) -> set[Function]:
        """The functions that do something to gradients themselves."""
        return {statement.function for statement in self.events}

    @cached_property
    def optimizers(self) -> list[str]:
        """The keys of all optimizers that are given to a scaler."""
        return sorted(self._optimizers)

    @cached_property
    def never_updated(self) -> bool:
        """True where nothing updates the scalers, and nobody else can: they are made here, and go nowhere."""
        made = frozenset(one for node in self.creations for one in self.facts.objects.objects(node))
        used = [event.scaler for _, event in self.of_kind("backward", "step")]
        return not any(self.of_kind("update", "unseen")) and all(scaler <= made for scaler in used)

    def objects_of(self, optimizer: str) -> ObjectSet:
        """What the optimizer of a key may be."""
        return self._optimizers[optimizer]

    def concerned(self, event: Event) -> set[str]:
        """The optimizers that an event is about: for a backward or an update those of its scaler."""
        if event.optimizer is not None:
            return {event.optimizer}
        mine = {key for key, scalers in self._scaled_by.items() if scalers & event.scaler}
        return mine or set(self.optimizers)

    def of_kind(self, *kinds: str) -> Iterator[tuple[Statement, Event]]:
        """The events of some kinds, with their statements."""
        for statement, events in self.events.items():
            yield from ((statement, event) for event in events if event.kind in kinds)

    def is_scaler(self, node: cst.BaseExpression) -> bool:
        """True for a name or an attribute that may mean one of the scalers."""
        return isinstance(node, (cst.Name, cst.Attribute)) and self.facts.objects.may_be(node, self.objects)

    def _collect(self, statement: Statement, reader: Callable[[cst.Call], Event | None]) -> None:
        for part in self.facts.tree.expressions(statement):
            if isinstance(part, cst.Call):
                event = reader(part)
                if event is not None:
                    self.events.setdefault(statement, []).append(event)

    def _scaler_event(self, call: cst.Call) -> Event | None:
        func = call.func
        if is_backward(self.facts, call):
            scaled = next((one for one in self._losses(call) if self.is_scaled(one)), None)
            if scaled is None:
                return None
            scaler = self._scaler_of(scaled)
            return Event("unseen" if self._may_be_own(scaler) else "backward", call, scaler=scaler)
        if not isinstance(func, cst.Attribute) or not self.is_scaler(func.value):
            return None
        method = func.attr.value
        scaler = self.facts.objects.objects(func.value)
        if self._may_be_own(scaler):
            return Event("unseen", call)
        if method == "update":
            return Event("update", call, scaler=scaler, has_value=bool(call.args))
        if method in ("unscale_", "step") and call.args:
            optimizer = call.args[0].value
            key = self._key(optimizer)
            self._scaled_by[key] = self._scaled_by.get(key, frozenset()) | scaler
            kind = "unscale" if method == "unscale_" else "step"
            return Event(kind, call, key, scaler, each=self._is_each(call, optimizer))
        return None

    def _may_be_own(self, scaler: ObjectSet) -> bool:
        """True for what may be an instance of a class of the unit as well: it steps in its own way."""
        return not self.whole and any(one.kind == "instance" for one in scaler)

    def _losses(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """What a backward may be of: `loss.backward()`, `accelerator.backward(loss)`."""
        yield from differentiated(self.facts, call)
        yield from (arg.value for arg in call.args[:1] if arg.keyword is None)

    def _is_each(self, call: cst.Call, optimizer: cst.BaseExpression) -> bool:
        return self._is_loop_variable(call, optimizer) or self._is_held_by_several(call, optimizer)

    def _is_held_by_several(self, call: cst.Call, optimizer: cst.BaseExpression) -> bool:
        """True for `self.optimizer` in a class that only steps, of which several instances are made: schedules."""
        function = self.facts.tree.function_of(call)
        owner = function.owner if function.is_method else None
        if owner is None or not isinstance(optimizer, cst.Attribute):
            return False
        if function.parameters[0].name.value not in names_in(optimizer):
            return False
        makers = self.facts.objects.family_makers.get(self.facts.objects.root_class(owner), [])
        calls = (part for part in walk(owner.node) if isinstance(part, cst.Call))
        return len(makers) > 1 and not any(called_name(one) == "backward" for one in calls)

    def _is_loop_variable(self, call: cst.Call, optimizer: cst.BaseExpression) -> bool:
        """True where an enclosing `for` names the optimizer, or what its name is bound to in there: each round is about
        another one.
        """
        meant = [(self.facts.tree.statement_of(one), names_in(one)) for one in each_once([optimizer], self._values)]
        return any(
            at.inside(loop) and names & names_in(loop.node.target)
            for loop in self.facts.tree.statement_of(call).path()[:-1]
            if isinstance(loop.node, cst.For)
            for at, names in meant
        )

    def _is_own(self, call: cst.Call) -> bool:
        """True for a function of the unit: what it does is seen inside it."""
        return self.facts.objects.called_function(call) is not None

    def _other_event(self, call: cst.Call) -> Event | None:
        func = call.func
        if is_clip(self.facts, call) and not self._is_own(call) and not self._is_rescaled(call):
            return Event("clip", call)
        if is_backward(self.facts, call) and not self._is_own(call):
            if self._is_plain(call):
                return Event("plain backward", call)
            is_open = self.whole and not any(map(self.is_scaled, self._losses(call)))
            return Event("unknown backward", call) if is_open else None
        if not isinstance(func, cst.Attribute):
            return None
        if func.attr.value == "zero_grad":
            return Event("zero_grad", call)
        if func.attr.value == "step" and not call.args and not self.is_scaler(func.value):
            return self._step_without_scaler(call, func.value)
        return None

    def _step_without_scaler(self, call: cst.Call, optimizer: cst.BaseExpression) -> Event | None:
        objects = self.facts.objects.objects(optimizer)
        for key, known in self._optimizers.items():
            is_other = are_different_elements(self.facts.objects, self._named[key], optimizer)
            if objects and objects <= known and not is_other:
                return Event("bare step", call, key)
        known = frozenset().union(*self._optimizers.values())
        is_own = objects and not objects & known and all(_makes_optimizer(self.facts, one.origin) for one in objects)
        return Event("own step", call) if is_own and self.whole else None

    def _unseen_event(self, call: cst.Call, unseen: Unseen) -> Event | None:
        if self._is_own(call) or self.facts.objects.classes_made(call):
            return None
        candidates = self.facts.objects.candidates(call)
        if candidates and any(self.facts.calls.reaches(one, self.functions.__contains__) for one in candidates):
            return Event("unseen", call)
        if candidates:
            return None
        if unseen.may_use_scaler(call):
            return Event("unseen", call)
        is_on_scaler = isinstance(call.func, cst.Attribute) and self.is_scaler(call.func.value)
        if "step" in called_name(call) and not is_on_scaler:
            for arg in call.args:  # `xm.optimizer_step(optimizer)`
                objects = self.facts.objects.objects(arg.value)
                for key, known in self._optimizers.items():
                    if objects & known:
                        return Event("unseen", call, key)
        return None

    def _add_lonely_optimizer(self) -> None:
        """Where losses are scaled and no scaler steps, the only optimizer of the file steps on scaled gradients."""
        if self._optimizers or not self.events:
            return
        made: dict[ObjectSet, cst.BaseExpression] = {}
        for part in self.facts.tree.parents:
            if isinstance(part, cst.Call) and called_name(part) == "step" and isinstance(part.func, cst.Attribute):
                objects = self.facts.objects.objects(part.func.value)
                origins = [one.origin for one in objects if isinstance(one.origin, cst.Call)]
                if len(origins) == len(objects) == 1 and _makes_optimizer(self.facts, origins[0]):
                    made[objects] = part.func.value
        if len(made) == 1:
            self._key(*made.values())

    def is_scaled(self, node: cst.BaseExpression) -> bool:
        """`scaler.scale(loss)`, or a name that is bound to nothing else."""
        scalers = [_scaled_with(value) for value in self._meant([node])]
        return bool(scalers) and all(scaler is not None and self.is_scaler(scaler) for scaler in scalers)

    def _scaler_of(self, node: cst.BaseExpression) -> ObjectSet:
        """The scaler of a scaled loss."""
        scalers = [_scaled_with(value) for value in self._meant([node])]
        return frozenset().union(*(self.facts.objects.objects(one) for one in scalers if one is not None))

    def _meant(self, nodes: list[cst.BaseExpression]) -> list[cst.BaseExpression]:
        """What names are bound to, through other names; a name alone where nothing is known."""
        values = each_once(nodes, self._values)
        return [one for one in values if not isinstance(one, cst.Name) or not self._values(one)]

    def _values(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        return self.facts.objects.values_of(node) if isinstance(node, cst.Name) else []

    def _is_plain(self, call: cst.Call) -> bool:
        """True where every value that a loss may have is known, and none is a scaled one."""
        given = [
            value
            for node in differentiated(self.facts, call)
            for value in (self.facts.objects.values_of(node) if isinstance(node, (cst.Name, cst.Attribute)) else [node])
        ]
        values = self._meant(given)
        calls = [part for value in values for part in walk(value) if isinstance(part, cst.Call)]
        is_engine = bool(call.args) and any(called_name(value)[:1].isupper() for value in calls if value in values)
        return bool(values) and not is_engine and all(called_name(call) != "scale" for call in calls)

    def _key(self, optimizer: cst.BaseExpression) -> str:
        """One key for all expressions that may mean the same optimizer."""
        objects = self.facts.objects.objects(optimizer)
        for key, known in self._optimizers.items():
            if is_other_element(self.facts.objects, self._named[key], optimizer):
                continue  # one function may have made both
            if objects & known or (not objects and key == source_key(optimizer)):
                self._optimizers[key] = known | objects
                return key
        key = source_key(optimizer)
        while key in self._optimizers and _are_built(self._optimizers[key] | objects):
            key += "'"  # another script's, of the same name
        self._optimizers[key] = objects
        self._named[key] = optimizer
        return key

    def _is_rescaled(self, call: cst.Call) -> bool:
        """`clip_grad_norm_(params, C * scaler.get_scale())` knows that the gradients are scaled."""
        return any(
            isinstance(part, cst.Attribute) and part.attr.value == "get_scale"
            for arg in call.args
            for part in walk(arg)
        )


def _creations(facts: Facts) -> Iterator[cst.Call]:
    for part, _ in facts.tree.every(cst.Call):
        module, _, name = (facts.names.dotted(part.func) or "").rpartition(".")
        if module and name in _SCALERS:
            yield part


def _is_disabled(creation: cst.Call) -> bool:
    return any(
        arg.keyword is not None and arg.keyword.value == "enabled" and source_key(arg.value) == "False"
        for arg in creation.args
    )


def _scaled_with(node: cst.CSTNode) -> cst.BaseExpression | None:
    """The scaler in `scaler.scale(loss)`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "scale":
        return node.func.value
    return None


def _scalers_by_use(facts: Facts) -> Iterator[Object]:
    """What comes from outside and is used as a scaler: `scaler.scale(loss).backward()` of a parameter."""
    for part in facts.tree.parents:
        if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute) and part.func.attr.value == "backward":
            scaler = _scaled_with(part.func.value)
            if isinstance(scaler, (cst.Name, cst.Attribute)):
                objects = facts.objects.objects(scaler)
                if all(one.kind in ("parameter", "field", "call") for one in objects):
                    yield from (one for one in objects if one.kind != "call")


def _are_built(objects: ObjectSet) -> bool:
    """True where every object is known by the call that builds it."""
    return all(isinstance(one.origin, cst.Call) for one in objects)


def _makes_optimizer(facts: Facts, call: object) -> bool:
    """True for `torch.optim.SGD(...)`, and not for a scheduler."""
    dotted = facts.names.dotted(call.func) or "" if isinstance(call, cst.Call) else ""
    module, _, name = dotted.rpartition(".")
    return module == "torch.optim" and name[:1].isupper()
