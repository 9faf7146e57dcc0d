"""Parameters that two optimizers step with the same gradients: GradScaler would divide these twice.

    encoder_optimizer = Adam(critic.encoder.parameters())
    optimizer = Adam(contrast.parameters())              # contrast = Contrast(critic): it has the encoder as well
    ...
    scaler.step(encoder_optimizer)                       # unscales the encoder's gradients
    scaler.step(optimizer)                               # and once more: they are 65536 times too small

What each has in common with the other is known where all parameters of a model are given; of lists that are filtered by
name it is not, and most of them part a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.findings import Refusal
from amp_migrate.sources.plain.containment import Containment
from amp_migrate.sources.plain.losses import Loss
from amp_migrate.sources.plain.optimizers import Optimizers


def shared_parameters(facts: Facts, optimizers: Optimizers, losses: list[Loss]) -> Refusal | None:
    """The refusal of two such optimizers, None without them."""
    containment = Containment(facts)
    given = {call: list(_whole_models(facts, call)) for call in optimizers.built}
    for one, other in combinations(optimizers.built, 2):
        if any(containment.share(mine, yours) for mine in given[one] for yours in given[other]):
            for step in _steps_together(facts, optimizers, losses, one, other):
                both = " and ".join(facts.text(call) for call in step)
                return Refusal("AMP972", step[1], f"{both} step the same parameters")
    return None


def _whole_models(facts: Facts, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """X of every `X.parameters()` that is given as it is, in a list of groups as well."""
    first = next((arg.value for arg in call.args if not arg.star), None)
    values = facts.objects.values_of(first) if isinstance(first, cst.Name) else []
    for node in values[:1] if len(values) == 1 else [first] if first is not None else []:
        for part in walk(node):
            if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute) and not part.args:
                if called_name(part) == "parameters" and not _is_filtered(facts, part, node):
                    yield part.func.value


def _is_filtered(facts: Facts, part: cst.CSTNode, outermost: cst.CSTNode) -> bool:
    while part is not outermost:
        part = facts.tree.parents[part]
        if isinstance(part, (cst.ListComp, cst.GeneratorExp, cst.SetComp, cst.Lambda)):
            return True
    return False


def _steps_together(
    facts: Facts, optimizers: Optimizers, losses: list[Loss], one: cst.Call, other: cst.Call
) -> Iterator[tuple[cst.Call, cst.Call]]:
    """Steps of the two optimizers, one after the other, without a backward between them."""
    first, second = facts.objects.objects(one), facts.objects.objects(other)
    found = [
        (call, statement, optimizers.optimizers_at(call.func.value))
        for call, statement in optimizers.steps
        if isinstance(call.func, cst.Attribute)
    ]
    for (call, statement, mine), (later, after, yours) in combinations(found, 2):
        is_pair = (mine & first and yours & second) or (mine & second and yours & first)
        if is_pair and mine != yours and statement.function is after.function and not _exclude(statement, after):
            between = [loss for loss in losses if loss.statement.function is statement.function]
            if not any(statement.order < loss.statement.order < after.order for loss in between):
                yield call, later


def _exclude(one: Statement, other: Statement) -> bool:
    """True where two statements stand in different arms."""
    for outer in one.path():
        mine, yours = one.arm_of(outer.node), other.arm_of(outer.node)
        if mine is not None and yours is not None and mine != yours:
            return True
    return False
