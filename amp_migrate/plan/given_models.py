"""The models whose parameters a call is given that builds an optimizer.

    Adam(model.parameters())           params += list(m.parameters()); Adam(params)           self.groups.append(...)

A function that builds optimizers for several callers builds each of what that caller gives it:

    def make(nets): return Adam(chain(*(net.parameters() for net in nets)))
    opt_g, opt_d = make([generator]), make([critic])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object
from amp_migrate.facts.tree import Function, argument_value, called_name, walk
from amp_migrate.facts.variables import Binding, Variable
from amp_migrate.interp.place import Frame, Frames, Place
from amp_migrate.interp.step import Step
from amp_migrate.interp.steps import Steps
from amp_migrate.models.traits import named

_Runs = dict[Function, cst.Call]


class GivenModels:
    """Answers for the calls of a unit."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._added: dict[Variable, list[cst.BaseExpression]] = {}

    def of(self, optimizer: Object) -> list[cst.BaseExpression]:
        """X in `SGD(X.parameters())`, for the call that made an optimizer, as its own caller names X; nothing where no
        such X is in sight.
        """
        if not isinstance(optimizer.origin, cst.Call):
            return []
        runs = self._runs(optimizer)
        frames = tuple(Frame(function, call) for function, call in reversed(runs.items()))
        found, _ = self.behind([arg.value for arg in optimizer.origin.args], runs)
        return [given for node in found for given in self._as_given(node, frames)]

    def all_of(self, optimizer: Object) -> list[cst.BaseExpression]:
        """The same where an optimizer is known to have nothing but the parameters of such models, else nothing."""
        call = optimizer.origin
        given = argument_value(call, "params", 0) if isinstance(call, cst.Call) else None
        return self.of(optimizer) if given is not None and self._are_of_models(given) else []

    def _are_of_models(self, node: cst.BaseExpression, seen: frozenset[cst.BaseExpression] = frozenset()) -> bool:
        """True for `X.parameters()`, and for what is joined, sifted or kept of nothing else."""
        if node in seen:
            return True
        parts: Sequence[cst.BaseExpression] = ()
        if isinstance(node, cst.Call):
            if called_name(node) in named("parameters") and isinstance(node.func, cst.Attribute):
                return True
            is_joining = called_name(node) in ("list", "tuple", "iter", "chain", "from_iterable", "filter")
            parts = [arg.value for arg in node.args if not isinstance(arg.value, cst.Lambda)] if is_joining else ()
        elif isinstance(node, cst.BinaryOperation):
            parts = (node.left, node.right)
        elif isinstance(node, (cst.List, cst.Tuple)):
            parts = [element.value for element in node.elements]
        elif isinstance(node, cst.Dict):
            parts = [one.value for one in node.elements if isinstance(one, cst.DictElement) and _is_of_group(one.key)]
        elif isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            parts = (node.for_in.iter,)
        elif isinstance(node, (cst.Name, cst.Attribute)):
            parts = self.facts.objects.values_of(node)
            parts += self._collected(node) if isinstance(node, cst.Name) else self._appended_to(node)
        return bool(parts) and all(self._are_of_models(part, seen | {node}) for part in parts)

    def behind(
        self, nodes: list[cst.BaseExpression], runs: _Runs | None = None
    ) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
        """X of every `X.parameters()` that goes into some expressions, and all expressions on the way: names, lists
        and attributes, and the arguments of calls; of functions in `runs` those of that call alone.
        """
        found: list[cst.BaseExpression] = []
        waiting = list(nodes)
        seen: dict[cst.BaseExpression, None] = {}
        while waiting:
            node = waiting.pop(0)
            if node in seen:
                continue
            seen[node] = None
            for part in walk(node):
                if isinstance(part, cst.Name):
                    waiting += self._values(part, runs or {})
                elif isinstance(part, cst.Attribute) and self.facts.tree.call_of(part) is None:
                    # self.parameters = list(self.net.parameters())
                    waiting += [*self.facts.objects.values_of(part), *self._appended_to(part)]
                elif isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute):
                    if called_name(part) in named("parameters"):
                        found.append(part.func.value)
        return found, list(seen)

    def _runs(self, optimizer: Object) -> _Runs:
        """The functions that an optimizer came through, innermost first, each with its call."""
        calls = [call for call in optimizer.calls if isinstance(call, cst.Call)]
        return {function: call for call in calls for function in self.facts.objects.candidates(call)}

    def _values(self, name: cst.Name, runs: _Runs) -> list[cst.BaseExpression]:
        variable = self.facts.names.variable_at(name)
        params = [one.node for one in variable.bindings if one.kind == "param"] if variable is not None else []
        owner = variable.scope.owner if variable is not None else None
        if variable is None or len(params) != len(variable.bindings) or owner not in runs:
            return [*self.facts.objects.values_of(name), *self._collected(name)]
        (param,) = params
        assert isinstance(owner, Function) and isinstance(param, cst.Param)
        arg = self.facts.objects.argument(runs[owner], owner, param)
        return [arg.value] if arg is not None else [param.default] if param.default is not None else []

    def _as_given(self, node: cst.BaseExpression, frames: Frames) -> list[cst.BaseExpression]:
        """What an expression of a function means for the calls that led there; itself, where that is not in sight."""
        if not any(frame.function is self.facts.tree.function_of(node) for frame in frames):
            return [node]
        steps = self.facts.analysis(Steps)
        found: list[cst.BaseExpression] = []
        waiting = [Place(node, (), frames)]
        seen: set[Place] = set()
        while waiting:
            place = waiting.pop()
            if not place.frames and not place.keys:
                found.append(place.node)
            elif place not in seen:
                seen.add(place)
                step = steps.of(place)
                if step.is_lost or step.made or not step.same:
                    return [node]
                waiting += step.same
        return found

    def _parts(self, binding: Binding) -> list[cst.BaseExpression]:
        """What `model, params = make()` binds to a name, in the function that returns it; nothing if out of sight."""
        waiting = [Place(binding.value, binding.selector)] if binding.value and binding.kind == "assign" else []
        seen: dict[Place, None] = {}
        while waiting:
            place = waiting.pop()
            step = self.facts.analysis(Steps).of(place) if place.keys and place not in seen else Step()
            if step.is_lost or step.made:
                return []
            seen[place] = None
            waiting += step.same
        return [place.node for place in seen if not place.keys]

    def _collected(self, name: cst.Name) -> list[cst.BaseExpression]:
        variable = self.facts.names.variable_at(name)
        if variable is None:
            return []
        if variable not in self._added:  # each place that names it asks
            self._added[variable] = list(self._added_to(variable))
        return self._added[variable]

    def _added_to(self, variable: Variable) -> Iterator[cst.BaseExpression]:
        """What a loop or `params += ...` binds, and what `params.append(...)` adds to a list."""
        for binding in variable.bindings:
            if binding.value is not None and (binding.kind in ("for", "augment") or binding.selector):
                yield from self._parts(binding) or [binding.value]
        for load in variable.loads:
            method = self.facts.tree.parents.get(load)
            call = self.facts.tree.call_of(method) if isinstance(method, cst.Attribute) else None
            if call is not None and called_name(call) in ("append", "extend"):
                yield from (arg.value for arg in call.args)

    def _appended_to(self, attribute: cst.Attribute) -> Iterator[cst.BaseExpression]:
        """What `self.params.append(p)` adds to the list that an attribute holds."""
        for call in self._appends.get(attribute.attr.value, ()):
            assert isinstance(call.func, cst.Attribute)
            if self.facts.objects.objects(call.func.value) & self.facts.objects.objects(attribute):
                yield from (arg.value for arg in call.args)

    @cached_property
    def _appends(self) -> dict[str, list[cst.Call]]:
        """The calls that add something to the list that an attribute holds, by its name."""
        found: dict[str, list[cst.Call]] = {}
        for call, _ in self.facts.tree.every(cst.Call):
            if called_name(call) in ("append", "extend") and isinstance(call.func, cst.Attribute):
                if isinstance(call.func.value, cst.Attribute):
                    found.setdefault(call.func.value.attr.value, []).append(call)
        return found


def _is_of_group(key: cst.BaseExpression) -> bool:
    return isinstance(key, cst.SimpleString) and key.evaluated_value == "params"
