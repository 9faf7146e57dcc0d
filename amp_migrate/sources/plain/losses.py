"""The losses that a plain loop calls `backward()` on, and the optimizers that their gradients are for.

    errD = criterion(netD(fake.detach()), label)
    errD.backward()                                 gradients for netD's optimizer, none for netG's

Whose gradients a backward makes decides where the scaler is updated and whether a step has any. It is followed from
the loss back to the models that run, without what is detached or runs under `no_grad`; where the trail ends in a
function, every optimizer counts.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import Path, Slice, backward_slice, own_reads, path_of, reads
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.tree import Function, Statement, called_name, children, walk
from amp_migrate.facts.values import UNKNOWN, literal_value
from amp_migrate.findings import Refusal
from amp_migrate.models import names
from amp_migrate.models.queries import cuts_gradient
from amp_migrate.plan.model import Backward
from amp_migrate.plan.regions.forwards import is_no_grad
from amp_migrate.rules.plain import SEVERAL_LOSSES
from amp_migrate.sources.plain.containment import Containment, whole
from amp_migrate.sources.plain.optimizers import Optimizers

_MOST_ARGUMENTS = 4  # gradient, retain_graph, create_graph, inputs


@dataclasses.dataclass(eq=False)
class Loss:
    """One backward: its `call`, the `loss`, and what else the backward is given."""

    call: cst.Call
    statement: Statement
    loss: cst.BaseExpression
    arguments: list[cst.Arg]


def find_losses(facts: Facts) -> list[Loss]:
    """Every `loss.backward(...)` and `torch.autograd.backward(loss, ...)` of the unit."""
    found = []
    for part, statement in facts.tree.every(cst.Call):
        if called_name(part) == "backward" and isinstance(part.func, cst.Attribute):
            loss = _read(facts, part, part.func, statement)
            if loss is not None:
                found.append(loss)
    return found


def _read(facts: Facts, call: cst.Call, func: cst.Attribute, statement: Statement) -> Loss | None:
    dotted = facts.names.dotted(func)
    if dotted == "torch.autograd.backward" and call.args:
        return Loss(call, statement, call.args[0].value, list(call.args[1:]))
    if dotted is not None and not _is_value(facts, func.value):
        return None
    if len(call.args) > _MOST_ARGUMENTS:
        return None  # the kernel of an autograd function
    if facts.objects.candidates(call) or _is_super_or_self(func.value, statement.function):
        return None
    return Loss(call, statement, func.value, list(call.args))


def _is_value(facts: Facts, node: cst.BaseExpression) -> bool:
    return not isinstance(node, (cst.Name, cst.Attribute)) or facts.names.dotted(node) is None


def _is_super_or_self(node: cst.BaseExpression, function: Function) -> bool:
    if isinstance(node, cst.Call) and called_name(node) == "super":
        return True
    own = function.parameters[:1] if function.is_method else ()
    return isinstance(node, cst.Name) and any(node.value == param.name.value for param in own)


def read_backwards(facts: Facts, optimizers: Optimizers, losses: list[Loss]) -> list[Backward]:
    """The backwards with the optimizers that they make gradients for. Raises Refusal for one of several losses."""
    found = [
        Backward(
            statement=one.statement,
            call=one.call,
            loss=_single(facts, one),
            optimizers=_fed(facts, optimizers, one),
            arguments=one.arguments,
        )
        for one in losses
    ]
    _feed_the_rest(optimizers, found)
    return found


def _feed_the_rest(optimizers: Optimizers, backwards: list[Backward]) -> None:
    """An optimizer that no backward seems to feed takes its gradients from those beside its step, or they would reach
    it scaled.
    """
    fed = {one for each in backwards for node in each.optimizers for one in optimizers.optimizers_at(node)}
    for call, statement in optimizers.steps:
        assert isinstance(call.func, cst.Attribute)
        own = optimizers.optimizers_at(call.func.value)
        if not own & fed:
            fed |= own
            for each in backwards:
                if each.statement.function is statement.function:
                    each.optimizers.append(call.func.value)


def _single(facts: Facts, one: Loss) -> cst.BaseExpression:
    """The loss of `torch.autograd.backward`, which takes lists and tensors for the gradients as well."""
    if one.call.func is not None and (facts.names.dotted(one.call.func) or "") == "torch.autograd.backward":
        plain = all(arg.keyword is not None and arg.keyword.value == "retain_graph" for arg in one.arguments)
        if isinstance(one.loss, (cst.List, cst.Tuple)) or not plain:
            text = facts.text(one.call)
            raise Refusal(SEVERAL_LOSSES, one.call, f"{text} is given more than one loss, or gradients of its own")
    return one.loss


def _fed(facts: Facts, optimizers: Optimizers, one: Loss) -> list[cst.BaseExpression]:
    """The optimizers, as they are named where they step, that hold parameters of the models behind a loss.

    Where none is known to, or the trail is lost, all of them count; those that step beside the backward come alone.
    """
    run = Behind(facts, optimizers, one).models()
    run = Containment(facts).with_parts(run) if run is not None else None
    steps = [step for step in optimizers.steps if step[1].function is one.statement.function] or optimizers.steps
    named: dict[ObjectSet, cst.BaseExpression] = {}
    for call, _ in steps:
        assert isinstance(call.func, cst.Attribute)
        named.setdefault(optimizers.optimizers_at(call.func.value), call.func.value)
    fed = [
        node
        for objects, node in named.items()
        if run is not None and any(_may_hold(facts, optimizers, obj, run) for obj in objects)
    ]
    return fed or list(named.values())


def _may_hold(facts: Facts, optimizers: Optimizers, optimizer: Object, run: ObjectSet) -> bool:
    """True unless all models whose parameters an optimizer holds are known and none of them runs."""
    models = optimizers.models_in(optimizer)
    return not models or any(facts.objects.may_be(whole(model), run) for model in models)


class Behind:
    """The models behind a loss, inside of the function of its backward."""

    def __init__(self, facts: Facts, optimizers: Optimizers, one: Loss) -> None:
        self.facts = facts
        self.one = one
        self.trained = optimizers.models
        self._model_paths = {
            path_of(part.func)
            for inner in one.statement.function.descendants()
            for part in facts.tree.calls(inner)
            if facts.objects.may_be(part.func, self.trained)
        }

    def models(self) -> ObjectSet | None:
        """What is called on the way to the loss; None where the trail leaves the function."""
        if self._leaves(self._slice.open_paths, self.one.statement.function):
            return None
        called: ObjectSet = frozenset()
        for call in self.calls():
            if any(one.name != "__call__" for one in self.facts.objects.candidates(call)):
                return None
            if isinstance(call.func, (cst.Name, cst.Attribute, cst.Subscript)):
                called |= self.facts.objects.objects(whole(call.func))
        return called

    def calls(self) -> Iterator[cst.Call]:
        """The calls whose results the loss is made of, those that are detached or have no graph left out."""
        yield from _calls_with_graph(self.facts, None, self.one.loss)
        for statement in sorted(self._slice.statements, key=lambda one: one.order):
            if not self._has_no_graph(statement):
                yield from _calls_with_graph(self.facts, statement, statement.node)

    @cached_property
    def _slice(self) -> Slice:
        wanted = list(_with_graph(self.one.loss, reads(self.one.loss)))
        return backward_slice(self.one.statement, wanted, self._ignored, reads_of=self._reads)

    def _leaves(self, paths: set[Path], function: Function) -> bool:
        """True where the loss is made of what another function or method hands over."""
        names = {param.name.value for param in function.parameters}
        return any(path[0] in names for path in paths)

    def _ignored(self, path: Path) -> bool:
        """Models, and `self` as such, are no values that flow."""
        function = self.one.statement.function
        variable = self.facts.names.visible(path[0], function)
        if variable is None or any(binding.kind in ("import", "def", "class") for binding in variable.bindings):
            return True
        if function.is_method and path == (function.parameters[0].name.value,):
            return True
        return path in self._model_paths or bool(self.facts.objects.variable_objects(variable) & self.trained)

    def _reads(self, statement: Statement) -> list[Path]:
        return [] if self._has_no_graph(statement) else list(_with_graph(statement.node, own_reads(statement)))

    def _has_no_graph(self, statement: Statement) -> bool:
        return any(is_no_grad(self.facts, outer) for outer in statement.path())


def _with_graph(node: cst.CSTNode, paths: Iterator[Path] | list[Path]) -> Iterator[Path]:
    """The paths that are not only read to be detached."""
    detached = Counter(path for part in _detached(node) for path in reads(part))
    yield from (Counter(paths) - detached).elements() if detached else paths


def _detached(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The outermost `x.detach()` and `x.data` below a node."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if _cuts(current):
            yield current
        elif not isinstance(current, cst.BaseSuite):
            waiting.extend(children(current))


def _cuts(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        is_method = all(literal_value(arg.value) is not UNKNOWN for arg in node.args)  # `net.short(x)` is a layer
        return is_method and node.func.attr.value in names(cuts_gradient) | {"numpy"}
    return isinstance(node, cst.Attribute) and node.attr.value == "data"


def _calls_with_graph(facts: Facts, statement: Statement | None, node: cst.CSTNode) -> Iterator[cst.Call]:
    detached = {part for cut in _detached(node) for part in walk(cut)}
    parts = facts.tree.expressions(statement) if statement is not None else walk(node)
    yield from (part for part in parts if isinstance(part, cst.Call) and part not in detached)
