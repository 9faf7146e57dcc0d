"""Which models have the parameters of others: those that they are made of.

captioner = Captioner(encoder, decoder)          has what encoder has
contrast = Contrast(critic)                      may have critic.encoder
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.tree import Class, Function, walk


class Containment:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def with_parts(self, models: ObjectSet) -> ObjectSet:
        """The models, and what the calls that make them are given, at any depth."""
        found: set[Object] = set()
        waiting = list(models)
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += [part for given in self._given(one) for part in self.facts.objects.objects(whole(given))]
        return frozenset(found)

    def share(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """True where two models are known to have parameters in common."""
        return self._is_same(one, other) or self._has(one, other) or self._has(other, one)

    def _has(self, outer: cst.BaseExpression, inner: cst.BaseExpression) -> bool:
        """True for `model` and `model.encoder`, and for a model that is given the other, a part of it or all of it."""
        if any(self._is_same(outer, above) for above in list(_above(inner))[1:]):
            return True
        for given in (given for one in self._known_apart(outer) for given in self._given(one)):
            if any(self._is_same(given, above) for above in _above(inner)):
                return True
            if any(self._is_same(inner, above) for above in _above(given)):
                return True
        return False

    def _is_same(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """True for one variable or attribute, and for what comes from one place."""
        if self._known_apart(one) & self._known_apart(other):
            return True
        if self.facts.text(one) != self.facts.text(other):
            return False
        roots = [next(part for part in walk(node) if isinstance(part, cst.Name)) for node in (one, other)]
        mine, yours = (self.facts.names.variable_at(root) for root in roots)
        owners = [self.facts.tree.function_of(root).owner for root in roots]
        return mine is yours or (roots[0].value == "self" and owners[0] is owners[1])

    def _known_apart(self, node: cst.BaseExpression) -> ObjectSet:
        """What an expression may mean, but for what the unit makes several times: that is all one object."""
        return frozenset(one for one in self.facts.objects.objects(node) if self._is_made_once(one))

    def _is_made_once(self, one: Object) -> bool:
        """False for instances that several calls make, or one in a function that is called from several places."""
        origin = one.source.origin
        if isinstance(origin, Class):
            makers = self.facts.objects.family_makers.get(origin, [])
            return len(makers) == 1 and self._runs_once(self.facts.tree.function_of(makers[0]))
        return not isinstance(origin, cst.Call) or self._runs_once(self.facts.tree.function_of(origin))

    def _runs_once(self, function: Function, seen: frozenset[Function] = frozenset()) -> bool:
        sites = self.facts.calls.callers(function) if function not in seen else []
        return len(sites) <= 1 and all(self._runs_once(site.caller, seen | {function}) for site in sites)

    def _given(self, one: Object) -> Iterator[cst.BaseExpression]:
        """What makes a model takes: plain names and attributes."""
        makers = [one.origin] if one.kind == "call" and isinstance(one.origin, cst.Call) else []
        if one.kind == "instance" and isinstance(one.origin, Class):
            makers = self.facts.objects.family_makers.get(one.origin, [])
        for arg in (arg for maker in makers for arg in maker.args):
            if isinstance(arg.value, (cst.Name, cst.Attribute)) and not _is_self(arg.value):
                yield arg.value


def whole(model: cst.BaseExpression) -> cst.BaseExpression:
    """`model` of `model.encoder`, and of `model.module`."""
    *_, last = _above(model)
    return last


def _above(model: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """`self.critic.encoder` and `self.critic`."""
    yield model
    while isinstance(model, cst.Attribute) and not _is_self(model.value):
        model = model.value
        yield model


def _is_self(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "self"
