"""The losses that a plain loop calls `backward()` on, and the optimizers that their gradients are for.

    errD = criterion(netD(fake.detach()), label)
    errD.backward()                                 gradients for netD's optimizer, none for netG's

Whose gradients a backward makes decides where the scaler is updated and whether a step has any. Where the trail from a
loss back to the models that run (`behind.py`) ends at a caller that is not known, every optimizer counts.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.backwards import differentiated, is_backward, is_backward_of_torch
from amp_migrate.facts.object import Object, ObjectSet
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Backward
from amp_migrate.rules.plain import SEVERAL_LOSSES
from amp_migrate.sources.plain.behind import Behind
from amp_migrate.sources.plain.containment import Containment, whole
from amp_migrate.sources.plain.optimizers import Optimizers

_LISTS = (cst.List, cst.Tuple, cst.ListComp)
_MOST_ARGUMENTS = 4  # gradient, retain_graph, create_graph, inputs


@dataclasses.dataclass(eq=False)
class Loss:
    """One backward: its `call`, the `loss`, and what else the backward is given."""

    call: cst.Call
    statement: Statement
    loss: cst.BaseExpression
    arguments: list[cst.Arg]


def find_losses(facts: Facts) -> list[Loss]:
    """Every loss that a backward of the unit differentiates."""
    return [
        Loss(part, statement, loss, list(part.args[is_backward_of_torch(facts, part) :]))
        for part, statement in facts.tree.every(cst.Call)
        if is_backward(facts, part) and _is_of_loss(facts, part, statement)
        for loss in differentiated(facts, part)
    ]


def gradients_given(facts: Facts) -> cst.Attribute | None:
    """Where gradients that `torch.autograd.grad` has made are given to parameters: `p.grad = g`."""
    if not any(called_name(call) == "grad" for call, _ in facts.tree.every(cst.Call)):
        return None
    for statement in facts.tree.all_statements():
        node = statement.node
        if isinstance(node, cst.Assign) and not (isinstance(node.value, cst.Name) and node.value.value == "None"):
            for target in (one.target for one in node.targets):
                if isinstance(target, cst.Attribute) and target.attr.value == "grad":
                    return target
    return None


def _is_of_loss(facts: Facts, call: cst.Call, statement: Statement) -> bool:
    func = call.func
    if is_backward_of_torch(facts, call) or not isinstance(func, cst.Attribute):
        return True
    if facts.names.dotted(func) is not None and not _is_value(facts, func.value):
        return False
    if len(call.args) > _MOST_ARGUMENTS:
        return False  # the kernel of an autograd function
    return not facts.objects.candidates(call) and not _is_super_or_self(func.value, statement.function)


def _is_value(facts: Facts, node: cst.BaseExpression) -> bool:
    return not isinstance(node, (cst.Name, cst.Attribute)) or facts.names.dotted(node) is None


def _is_super_or_self(node: cst.BaseExpression, function: Function) -> bool:
    if isinstance(node, cst.Call) and called_name(node) == "super":
        return True
    own = function.parameters[:1] if function.is_method else ()
    return isinstance(node, cst.Name) and any(node.value == param.name.value for param in own)


def read_backwards(facts: Facts, optimizers: Optimizers, losses: list[Loss]) -> list[Backward]:
    """The backwards with the optimizers that they make gradients for. Raises Refusal for a list out of sight."""
    for one in losses:
        check_given(facts, one)
    found = [
        Backward(
            statement=one.statement,
            call=one.call,
            loss=one.loss,
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


def check_given(facts: Facts, one: Loss) -> None:
    """Raises Refusal for `torch.autograd.backward` of a list that is made elsewhere, or with gradients of its own."""
    if is_backward_of_torch(facts, one.call):
        plain = all(arg.keyword is not None and arg.keyword.value == "retain_graph" for arg in one.arguments)
        values = [facts.tree.parents.get(one.loss), *facts.objects.values_of(one.loss)]
        if not plain or any(isinstance(value, (*_LISTS, cst.StarredElement)) for value in values):
            text = facts.text(one.call)
            raise Refusal(SEVERAL_LOSSES, one.call, f"{text} is given a list by its name, or gradients of its own")


def _fed(facts: Facts, optimizers: Optimizers, one: Loss) -> list[cst.BaseExpression]:
    """The optimizers, as they are named where they step, that hold parameters of the models behind a loss.

    Where none is known to, or the trail is lost, all of them count that a program with the loss runs; those that step
    beside the backward come alone.
    """
    run = Behind(facts, optimizers.models, one.loss).models()
    run = Containment(facts).with_parts(run) if run is not None else None
    function = one.statement.function
    own = {function, *(called for called in facts.calls.callees(function) if called.name == "step")}  # of a wrapper
    beside = any(step[1].function is function for step in optimizers.steps)
    steps = [step for step in optimizers.steps if beside and step[1].function in own]
    others = facts.calls.of_other_programs({one.statement.function}) if not steps else set()
    steps = steps or [step for step in optimizers.steps if step[1].function not in others] or optimizers.steps
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
