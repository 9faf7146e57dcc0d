"""Attacks on the inputs: no step takes the gradients that their backwards leave in the weights. They stay in float32.

    delta = torch.zeros_like(x, requires_grad=True)
    F.cross_entropy(model(x + delta), y).backward()
    delta = (delta + 0.1 * delta.grad.sign()).detach()
    loss = criterion(model(x + delta), y)
    optimizer.zero_grad()
    loss.backward()                                            the gradients that the step takes
    optimizer.step()

So do fits of tensors, which an attack may be as well (`inner_fits.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cached_property, partial

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.paths import Graph, Point
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.interp.steps import Steps
from amp_migrate.plan.steps.inputs import is_input, makes_tensor
from amp_migrate.sources.plain.behind import Behind
from amp_migrate.sources.plain.losses import Loss
from amp_migrate.sources.plain.optimizers import Optimizers


class Attacks:
    """The attacks among the losses; `fits` are those that fit tensors."""

    def __init__(self, facts: Facts, optimizers: Optimizers, losses: list[Loss], fits: Collection[Loss]) -> None:
        self.facts = facts
        self.optimizers = optimizers
        self.losses = losses
        self._graphs: dict[Function, Graph] = {}
        self._reads = [part for part in facts.tree.every(cst.Attribute) if part[0].attr.value == "grad"]
        inside = {one.statement.function for one in fits}
        self._steps = [one for one in optimizers.steps if one[1].function not in inside]
        self.apart = {one for one in losses if one in fits or self._is_attack(one)}

    def change(self, tensor: cst.BaseExpression, statement: Statement) -> bool:
        """True for an input that has gradients of attacks alone: behind any other backward, it is made anew."""
        own = [one for one in self.losses if one.statement.function is statement.function]
        if not self.apart.intersection(own):
            return False
        graph, bindings = self._graph(statement.function), self.facts.names.bindings_at(tensor)
        steps = self.facts.analysis(Steps)
        anew = {one.statement for one in bindings if makes_tensor(steps, one.value)}
        scaled = [point for one in self.losses if one not in self.apart for point in graph.at(one.statement)]
        return not graph.path_exists(scaled, graph.at(statement).__contains__, lambda point: point.statement in anew)

    def through_models(self) -> Iterator[Loss]:
        """Those that leave gradients in what is trained."""
        for loss in self.losses:
            behind = Behind(self.facts, self.optimizers.models, loss.loss)
            if loss in self.apart and (behind.models() is None or behind.is_of_trained()):
                yield loss

    def _is_attack(self, loss: Loss) -> bool:
        """True where gradients of inputs are read, and those of the weights come to no step."""
        function, stepping = loss.statement.function, {statement.function for _, statement in self._steps}
        reads = [(part, statement) for part, statement in self._reads if statement.function is function]
        if not reads or not stepping:
            return False
        if not self.facts.calls.reaches(function, stepping.__contains__):
            is_open = self.facts.is_used_outside(function.outermost) or self.facts.calls.value_uses(function)
            return not function.is_module and not is_open
        graph = self._graph(function)
        sources = graph.at(loss.statement)
        are_inputs = all(is_input(self.facts, self.optimizers.objects, part.value) for part, _ in reads)
        return are_inputs and not any(
            graph.path_exists(sources, graph.at(statement).__contains__, self._clears(call))
            for call, statement in self._steps
        )

    def _clears(self, step: cst.Call) -> Callable[[Point], bool]:
        """Tests for what clears gradients that a step takes; whether all of them, `plan/steps` asks."""
        stepped = self._called_on(step)
        zeroed = {at for call, at in self._zero_grads if self._called_on(call) == stepped or self._is_of_model(call)}
        return lambda point: point.statement in zeroed

    def _called_on(self, call: cst.Call) -> ObjectSet:
        return self.optimizers.optimizers_at(call.func.value) if isinstance(call.func, cst.Attribute) else frozenset()

    def _is_of_model(self, call: cst.Call) -> bool:
        return isinstance(call.func, cst.Attribute) and self.facts.objects.may_be(
            call.func.value, self.optimizers.models
        )

    @cached_property
    def _zero_grads(self) -> list[tuple[cst.Call, Statement]]:
        return [one for one in self.facts.tree.every(cst.Call) if called_name(one[0]) == "zero_grad"]

    def _graph(self, function: Function) -> Graph:
        """The paths of a function, with what it calls that has to do with gradients."""
        if function not in self._graphs:
            busy = {at.function for _, at in (*self._steps, *self._zero_grads)}
            busy |= {one.statement.function for one in self.losses}
            inline = partial(self.facts.calls.reaches, holds=busy.__contains__)
            self._graphs[function] = Graph(self.facts, function, inline, lambda test: None, called_again=True)
        return self._graphs[function]
