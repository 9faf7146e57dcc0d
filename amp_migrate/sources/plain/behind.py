"""What the gradient of a loss reaches: the calls that the loss is made of, and the models among what they run.

    errD = criterion(netD(fake.detach()), label)
    errD.backward()                                 gradients for netD, none for what made `fake`

It is followed back as values are (`interp/steps.py`), through the functions that return them and with their arguments,
without what is detached or runs under `no_grad`. The forward of a module is not entered: what it runs are its parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.tree import argument_value, called_name, wholes
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.interp.place import Place
from amp_migrate.interp.search import contributing
from amp_migrate.interp.step import Made, Step
from amp_migrate.interp.steps import Steps
from amp_migrate.models import Dtype, method, names
from amp_migrate.models.queries import cuts_gradient, has_parameters
from amp_migrate.plan.regions.forwards import runs_without_gradients
from amp_migrate.sources.plain.containment import whole

_MOST = 3000  # places behind one loss
_CALLEES = (cst.Name, cst.Attribute, cst.Subscript)


class Behind:
    """The calls behind one loss; `trained` are the models of the optimizers. What is behind `ends` is left out."""

    def __init__(
        self, facts: Facts, trained: ObjectSet, loss: cst.BaseExpression, ends: frozenset[cst.Call] = frozenset()
    ) -> None:
        self.facts = facts
        self.trained = trained
        self.loss = loss
        self.ends = ends
        self._steps = facts.analysis(Steps)

    def models(self) -> ObjectSet | None:
        """What is called on the way to the loss; None where some of it comes from a caller that is not known."""
        places, is_whole = self._found
        if not is_whole:
            return None
        return frozenset().union(*(self._run_by(one) for one in places))

    def calls(self) -> Iterator[cst.Call]:
        """The calls whose results the loss is made of."""
        places, _ = self._found
        yield from dict.fromkeys(one.node for one in places if isinstance(one.node, cst.Call))

    def reaches(self, call: cst.Call) -> bool:
        """False where all ways from a call to the loss lead through one of the ends."""
        places, _ = self._found
        return len(places) >= _MOST or any(one.node is call for one in places)

    def may_have_gradients(self) -> bool:
        """False for what is made of data, and of what ran without gradients: nothing of it is up to a model."""
        places, is_whole = self._found
        return not is_whole or self.is_of_trained() or any(map(self._may_be_trained, places))

    def is_of_trained(self) -> bool:
        """True for what a model that is trained, or its parameters, are seen behind."""
        places = (one.node for one in self._found[0])
        called = (one.func if isinstance(one, cst.Call) else one for one in places)
        return any(isinstance(one, _CALLEES) and self.facts.objects.may_be(whole(one), self.trained) for one in called)

    def _may_be_trained(self, place: Place) -> bool:
        """True for a tensor that asks for its gradient, and for what is called without anybody knowing what it is."""
        node, step = place.node, self._step(place)
        if not isinstance(node, cst.Call):
            return False
        asks = called_name(node) in ("requires_grad_", "Parameter") or argument_value(node, "requires_grad") is not None
        if asks or any(row is None or has_parameters(row) for row in step.rows):
            return True
        is_method = isinstance(node.func, cst.Attribute) and method(node.func.attr.value) is not None
        return step.is_lost and not is_method and self.facts.names.dotted(node.func) is None

    @cached_property
    def _found(self) -> tuple[list[Place], bool]:
        """The places behind the loss, and whether they are all."""
        seen: dict[Place, None] = {}
        waiting, is_whole = [Place(self.loss)], True
        while waiting and len(seen) < _MOST:
            place = waiting.pop()
            if place in seen or place.node in self.ends or self._has_no_graph(place.node):
                continue
            seen[place] = None
            step = self._step(place)
            waiting += [*step.same, *step.written]
            waiting += [operand for made in step.made if not _are_integers(made) for operand in contributing(made)]
            if step.is_lost:
                is_whole = is_whole and not self._is_up_to_a_caller(place.node)
                waiting += self._parts(place)
        return [*seen], is_whole and not waiting

    def _step(self, place: Place) -> Step:
        """One step back; of the call of a module to what it is given."""
        node = place.node
        if isinstance(node, cst.Call) and self._is_of_module(node):
            return Step(is_lost=True)
        return self._steps.of(place)

    def _is_of_module(self, call: cst.Call) -> bool:
        return isinstance(call.func, _CALLEES) and self.facts.objects.may_be(call.func, self.trained)

    def _run_by(self, place: Place) -> ObjectSet:
        """The modules that a call may run: what is called, and the trained model whose method is."""
        call = place.node
        if not isinstance(call, cst.Call) or not isinstance(call.func, _CALLEES):
            return frozenset()
        run: ObjectSet = frozenset()
        for callee in self._meant(Place(call.func, (), place.frames)):
            run |= self.facts.objects.objects(whole(callee))
        owner = call.func.value if isinstance(call.func, cst.Attribute) else None
        if owner is not None and self.facts.objects.may_be(owner, self.trained):
            run |= self.facts.objects.objects(whole(owner))
        return run

    def _meant(self, place: Place) -> list[cst.BaseExpression]:
        """What a parameter that is called was given by the calls that led there."""
        node = place.node
        is_parameter = any(one.kind == "param" for one in self.facts.names.bindings_at(node))
        step = self._steps.of(place) if is_parameter and place.frames else None
        if step is None or step.is_lost or not step.same:
            return [node] if isinstance(node, _CALLEES) else []
        return [meant for one in step.same for meant in self._meant(one)]

    def _is_up_to_a_caller(self, node: cst.BaseExpression) -> bool:
        """True for a parameter whose function nobody is seen to call, and for what is read of one."""
        return any(one.kind == "param" for one in self.facts.names.bindings_at([*wholes(node)][-1]))

    def _has_no_graph(self, node: cst.BaseExpression) -> bool:
        """True for what is detached, and for what runs without gradients."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            is_method = all(literal_value(arg.value) is not UNKNOWN for arg in node.args)  # `net.short(x)` is a layer
            if is_method and node.func.attr.value in names(cuts_gradient) | {"numpy"}:
                return True
        if isinstance(node, cst.Attribute) and node.attr.value == "data":
            return True
        return runs_without_gradients(self.facts, self.facts.tree.statement_of(node))

    def _parts(self, place: Place) -> list[Place]:
        """What a call out of sight may make its result of: its arguments, and the tensor whose method it is."""
        node = place.node
        if not isinstance(node, cst.Call):
            return []
        parts = [arg.value for arg in node.args]
        owner = node.func.value if isinstance(node.func, cst.Attribute) and not self._is_of_module(node) else None
        if owner is not None and not self._is_instance(owner):
            parts.append(owner)
        return [Place(one, (), place.frames) for one in parts]

    def _is_instance(self, node: cst.BaseExpression) -> bool:
        return isinstance(node, cst.Name) and node.value == self.facts.tree.function_of(node).receiver


def _are_integers(made: Made) -> bool:
    """True for `x.to(torch.uint8)`, which no gradient comes through."""
    return isinstance(made.cast, frozenset) and made.cast <= {Dtype.INTEGER, Dtype.BOOLEAN}
