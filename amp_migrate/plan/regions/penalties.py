"""Forwards whose outputs are differentiated with a graph: penalties of gradients, in float32 as a whole (rule H5).

    score = D(real)                                              stays out of every region
    loss = F.softplus(-score).mean() + 10 * r1(score, real)

    def r1(score, real):
        gradient = autograd.grad(score.sum(), real, create_graph=True)[0]

Such a gradient is not scaled: in half most of it is lost. Float32 is right for the loss as well that the same outputs
are for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.answers import Answers
from amp_migrate.facts.dataflow import Path, backward_slice, overlaps, own_reads, reads, writes
from amp_migrate.facts.tree import Function, Statement, argument_value
from amp_migrate.plan.regions.barriers import is_autograd_grad, read_by
from amp_migrate.plan.regions.forwards import Forwards

_Pair = tuple[frozenset[str], frozenset[str]]


class Penalties:
    def __init__(self, facts: Facts, forwards: Forwards) -> None:
        self.facts = facts
        self.forwards = forwards
        self.forwards_of = cache(self._forwards_of)
        self._differentiated: Answers[Function, _Pair] = Answers((frozenset(), frozenset()))

    def _forwards_of(self, function: Function) -> frozenset[Statement]:
        """The forwards of a function that penalties are made of, and what is made of their results for them."""
        found: set[Statement] = set()
        for outer in function.body.statements:
            for statement in outer.descendants():
                for outputs, inputs in self._gradients(statement):
                    found |= self._made_by_models(statement, outputs, inputs)
        return frozenset(found)

    def inputs_at(self, statement: Statement) -> set[str]:
        """The names of what gradients are taken for."""
        return {path[0] for _, inputs in self._gradients(statement) for path in inputs}

    def _made_by_models(self, at: Statement, outputs: list[Path], inputs: list[Path]) -> set[Statement]:
        """The statements between the inputs and the outputs of a gradient, and the forward of both: where the inputs
        are used, what else is used with them leads somewhere else.
        """

        def reads_of(statement: Statement) -> list[Path]:
            own = own_reads(statement)
            return [] if any(overlaps(path, one) for path in own for one in inputs) else own

        made = backward_slice(at, outputs, lambda path: path in inputs, reads_of).statements
        found = {one for one in made if self.forwards.runs_model(one) or self.forwards.calls_an_object(one)}
        results = [*inputs, *(path for one in found for path in writes(one))] if found else []
        for statement in sorted(made - found, key=lambda one: one.order):
            if any(overlaps(path, result) for path in own_reads(statement) for result in results):
                found.add(statement)
                results += writes(statement)
        return found

    def _gradients(self, statement: Statement) -> Iterator[tuple[list[Path], list[Path]]]:
        """What outputs and inputs read of each `autograd.grad(outputs, inputs, create_graph=True)`, here or in a helper
        that is given the outputs, however deep.
        """
        for call in self.facts.tree.calls(statement):
            if self._is_gradient(call):
                yield list(read_by(call, "outputs", 0)), list(read_by(call, "inputs", 1))
            function = self.facts.objects.called_function(call)
            if function is None:
                continue
            outputs, inputs = self._differentiated.to(function, partial(self._parameters_differentiated, function))
            if outputs:
                given = list(self.facts.objects.arguments(call, function))
                yield (
                    [path for param, arg in given if param.name.value in outputs for path in reads(arg.value)],
                    [path for param, arg in given if param.name.value in inputs for path in reads(arg.value)],
                )

    def _parameters_differentiated(self, function: Function) -> _Pair:
        """The parameters of a function that are outputs and inputs of a gradient; none where a model is run in it."""
        names = {param.name.value for param in function.parameters}
        outputs: set[str] = set()
        inputs: set[str] = set()
        for outer in function.body.statements:
            for statement in outer.descendants():
                for wanted, for_inputs in self._gradients(statement):
                    made = backward_slice(statement, wanted, for_inputs.__contains__)
                    if not any(map(self.forwards.runs_model, made.statements)):
                        outputs |= {path[0] for path in made.open_paths if path[0] in names}
                        inputs |= {path[0] for path in for_inputs if path[0] in names}
        return frozenset(outputs), frozenset(inputs)

    def _is_gradient(self, call: cst.Call) -> bool:
        with_graph = argument_value(call, "create_graph")
        return with_graph is not None and self.facts.text(with_graph) != "False" and is_autograd_grad(self.facts, call)
