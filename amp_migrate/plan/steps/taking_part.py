"""Whether what an optimizer trains takes part in a loss: where it does not, no backward makes it gradients (rule A7).

    if mode == "pretrain":
        loss = head(net(x)).mean()
    else:
        loss = criterion(net(x), y)             nothing of head takes part
    loss.backward()
    net_optimizer.step()
    head_optimizer.step()                       did nothing there, and GradScaler.step asserts

It is asked of networks that are known to be all that an optimizer has. Whatever may run one of them, what holds them or
a part of them counts as taking part, and so does a call that is out of sight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.answers import Answers
from amp_migrate.facts.each_once import each_once
from amp_migrate.facts.object import Object, ObjectSet, is_field_of, overlap
from amp_migrate.facts.tree import Function, Statement, targets, wholes
from amp_migrate.plan.given_models import GivenModels
from amp_migrate.plan.regions.forwards import runs_without_gradients
from amp_migrate.vocabulary import is_no_forward


class Links:
    """Which objects hold which: what they are made of or given, and what is stored in them."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._pairs = [(outer, inner) for outer, inner in self._found() if outer and inner]

    def wholes(self, objects: ObjectSet) -> ObjectSet:
        """The objects, and what holds them, at any depth."""
        return frozenset(each_once(objects, lambda one: _joined(outer for outer, inner in self._pairs if one in inner)))

    def parts(self, objects: ObjectSet) -> ObjectSet:
        """The objects, and what they hold and somebody calls, at any depth."""
        found = each_once(objects, lambda one: _joined(inner for outer, inner in self._pairs if one in outer))
        return objects | self._called.intersection(found)

    def share(self, some: ObjectSet, others: ObjectSet) -> bool:
        """True where one of some objects is one of the others, holds it, or is held by it."""
        is_field = any(is_field_of(one, others) or is_field_of(other, some) for one in some for other in others)
        return is_field or bool(self.wholes(some) & others or self.wholes(others) & some)

    def _found(self) -> Iterator[tuple[ObjectSet, ObjectSet]]:
        of = self.facts.objects.objects
        for _, stores in self.facts.objects.all_stores():
            yield from ((of(store.base), of(store.value)) for store in stores)
        for call, _ in self.facts.tree.every(cst.Call):
            if self.facts.objects.candidates(call) and not self.facts.objects.classes_made(call):
                continue
            given = _joined(of(node) for arg in call.args for node in _named(arg.value))
            yield of(call), given
            if isinstance(call.func, cst.Attribute) and self.facts.names.dotted(call.func) is None:
                yield of(call.func.value), given  # `networks.append(net)`

    @cached_property
    def _called(self) -> ObjectSet:
        return _joined(self.facts.objects.objects(call.func) for call, _ in self.facts.tree.every(cst.Call))


class TakingPart:
    """A test for statements in which what an optimizer trains may take part.

    Functions that are `laid_out` are no part of the statement that calls them. A loop, or an attempt, counts with all
    that is in it, but for those that are `around` the step.
    """

    def __init__(
        self, facts: Facts, optimizer: Object, others: ObjectSet, laid_out: set[Function], around: set[Statement]
    ) -> None:
        self.facts = facts
        self._others = others
        self._laid_out = laid_out
        self._around = around
        models = facts.analysis(GivenModels).all_of(optimizer)
        own = _joined(map(facts.objects.objects, models))
        above = _joined(facts.objects.objects(outer) for node in models for outer in [*wholes(node)][1:])
        self.is_known = bool(own) and all(one.source.kind in ("call", "instance") for one in own)
        links = facts.analysis(Links)
        self._own = links.parts(own)
        self._holding = links.wholes(own | above) - others
        self._functions: Answers[Function, bool] = Answers(False)
        self._known: dict[Statement, bool] = {}

    def __call__(self, statement: Statement) -> bool:
        if statement not in self._known:
            self._known[statement] = self.takes_part(statement) or self._has_all_ways_in_it(statement)
        return self._known[statement]

    def _has_all_ways_in_it(self, statement: Statement) -> bool:
        node = statement.node
        if isinstance(node, cst.If):
            is_left_out = node.orelse is not None or not _binds_what_is_read(self.facts, statement)
        else:
            is_left_out = not isinstance(node, (cst.While, cst.Try, cst.TryStar)) or statement in self._around
        return not is_left_out and any(map(self.takes_part, statement.descendants()))

    def takes_part(self, statement: Statement) -> bool:
        """The same for the statement itself."""
        if runs_without_gradients(self.facts, statement):
            return False
        return any(self._runs(part, statement) for part in self.facts.tree.expressions(statement))

    def _runs(self, part: cst.CSTNode, statement: Statement) -> bool:
        """True for a call that may run one of the networks, for a function that is handed on and does, and for what is
        read of one.
        """
        if isinstance(part, cst.Call):
            return self._is_run(part, statement)
        outer = self.facts.tree.parents.get(part)
        is_named = isinstance(outer, (cst.FunctionDef, cst.ImportAlias)) or self.facts.tree.call_of(part) is not None
        if is_named or not isinstance(part, (cst.Name, cst.Attribute, cst.Lambda)):
            return False
        if isinstance(part, cst.Lambda):
            return self._is_run_in(self.facts.tree.function_at[part])
        handed = self.facts.objects.function_handed_over(part)
        functions = [handed] if handed is not None and handed.name != "__init__" else []
        if isinstance(part, cst.Attribute):
            if self._may_be(part.value, self._own):
                return True  # `x @ head.weight`
            functions += self.facts.objects.properties(part)
        return any(map(self._is_run_in, functions))

    def _is_run_in(self, function: Function) -> bool:
        return self._functions.to(function, lambda: any(map(self._runs_in_any_case, function.body.statements)))

    def _runs_in_any_case(self, statement: Statement) -> bool:
        """The same for a statement of a function that is called, with what is in it on all ways."""
        ways = [any(map(self._runs_in_any_case, block.statements)) for block in statement.blocks]
        is_choice = isinstance(statement.node, cst.If)
        return self(statement) or (len(ways) > 1 and all(ways) if is_choice else any(ways))

    def _is_run(self, call: cst.Call, statement: Statement) -> bool:
        sites = self.facts.calls.in_statement(statement)
        if any(site.call is call and site.callee in self._laid_out for site in sites):
            return False
        if isinstance(call.func, cst.Attribute) and is_no_forward(call.func.attr.value):
            return False
        if self.facts.objects.classes_made(call) or self._may_be(call, self._own):
            return False  # it makes something, or hands the network back: `net = loaded(net)`
        functions = self.facts.objects.candidates(call)
        is_method = isinstance(call.func, cst.Attribute) and any(one.name == call.func.attr.value for one in functions)
        if not is_method and self._may_be(call.func, self._own | self._holding):
            return True
        functions = (*functions, *self.facts.objects.methods_of_instances(call.func, "forward"))
        if functions:
            return any(map(self._is_run_in, functions))
        return self._is_out_of_sight(call) or any(
            self._may_be(node, self._own | self._holding) for arg in call.args for node in _named(arg.value)
        )

    def _is_out_of_sight(self, call: cst.Call) -> bool:
        """True for a call of what only a caller knows, and of a method of the networks or of what holds them."""
        found = self.facts.objects.objects(call.func)
        if isinstance(call.func, cst.Name):
            return any(one.kind == "parameter" for one in found)
        above = self._own if found else self._own | self._holding
        return any(self._may_be(one, above) for one in [*wholes(call.func)][1:])

    def _may_be(self, node: cst.BaseExpression, objects: ObjectSet) -> bool:
        found = [one for one in self.facts.objects.objects(node) if one not in self._others]
        return any(is_field_of(one, objects) or any(overlap(one, other) for other in objects) for one in found)


def _joined(sets: Iterable[ObjectSet]) -> ObjectSet:
    return frozenset(one for each in sets for one in each)


def _named(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What is given by name, alone or in a display."""
    if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        for element in node.elements:
            yield from _named(element.value)
    elif isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
        yield node


def _binds_what_is_read(facts: Facts, statement: Statement) -> bool:
    """True for an `if` without an `else` that some arm is meant to be taken of: what its arms bind, and nothing else
    does, is read behind it.
    """
    top = statement
    while top.is_elif:
        top = top.path()[-2]
    bound = [target for inner in statement.descendants() for target in targets(inner.node)]
    for variable in (facts.names.variable_at(target) for target in bound if isinstance(target, cst.Name)):
        for load in variable.loads if variable is not None else ():
            at = facts.tree.statement_of(load)
            if at.function is top.function and at.order > top.order and not at.inside(top):
                conditions = [one for one in at.path()[:-1] if not isinstance(one.node, cst.With)]
                if all(top.inside(one) for one in conditions):
                    own = [one.statement for one in variable.bindings] if variable is not None else []
                    if all(one is not None and one.inside(top) for one in own):
                        return True
    return False
