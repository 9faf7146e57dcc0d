"""Backwards and steps that functions of other files make with what the unit trains.

    warm(model, optimizer)     in another file: loss.backward(); optimizer.step()

    masking = Masking(optimizer)
    masking.step()             its method: self.optimizer.step()

Where gradients are unscaled depends on them as well, so the unit needs those files.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import Object
from amp_migrate.facts.tree import Function, Statement, called_name
from amp_migrate.files.gradients import trains
from amp_migrate.findings import Refusal
from amp_migrate.plan.model import Recognition
from amp_migrate.plan.roles import Roles
from amp_migrate.rules.steps import STEP_NOT_JOINED


def refuse_hidden_training(facts: Facts, found: Recognition, roles: Roles, training: Set[Statement]) -> None:
    """Raise Refusal for such a call in a function with one of the `training` statements, or in one that it calls."""
    losses = frozenset[Object]().union(*(facts.objects.objects(backward.loss) for backward in found.backwards))

    def is_trained(node: cst.BaseExpression) -> bool:
        objects = facts.objects.objects(node)
        return roles.is_model(node) or bool(roles.optimizers_at(node)) or bool(objects & losses)

    for call in _calls_below(facts, {statement.function for statement in training}):
        if facts.objects.candidates(call):
            continue
        given = any(is_trained(arg.value) for arg in call.args)
        called = facts.names.imported_as(call.func) if given else []
        if any(map(trains, (*called, *_methods(facts, roles, call)))):
            text = facts.text(call.func)
            message = f"{text} of another file makes a backward or a step of its own"
            raise Refusal(STEP_NOT_JOINED, call, message, case="hidden")


def _methods(facts: Facts, roles: Roles, call: cst.Call) -> Iterator[str]:
    """What a method may be that is called on what an imported class made of an optimizer; one that is an optimizer
    itself is stepped by the scaler, whatever its step does.
    """
    receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
    if receiver is None or roles.optimizers_at(receiver):
        return
    for made in facts.objects.calls_behind(receiver):
        if any(roles.optimizers_at(arg.value) for arg in made.args):
            for owner in facts.names.imported_as(made.func):
                yield facts.elsewhere.member(owner, called_name(call))


def _calls_below(facts: Facts, functions: Set[Function]) -> Iterator[cst.Call]:
    """The calls in some functions and in all that they call, in the order of the files."""
    below = functions | {reached for function in functions for reached in facts.calls.reachable(function)}
    return (call for call, statement in facts.tree.every(cst.Call) if statement.function in below)
