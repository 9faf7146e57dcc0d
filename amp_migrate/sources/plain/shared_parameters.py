"""Parameters that two optimizers step with the same gradients: GradScaler would divide these twice.

    encoder_optimizer = Adam(critic.encoder.parameters())
    optimizer = Adam(contrast.parameters())              # contrast = Contrast(critic): it has the encoder as well
    ...
    scaler.step(encoder_optimizer)                       # unscales the encoder's gradients
    scaler.step(optimizer)                               # and once more: they are 65536 times too small

So it is where a backward stands between the two, and nothing is cleared before it: its scaled gradients are added to
what the first has unscaled.

What each has in common with the other is known where all parameters of a model are given; of lists that are filtered by
name it is not, and most of them part a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.object import ObjectSet
from amp_migrate.facts.tree import Statement, called_name, walk
from amp_migrate.findings import Refusal
from amp_migrate.rules.plain import SHARED_PARAMETERS
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
                return Refusal(SHARED_PARAMETERS, step[1], f"{both} step the same parameters")
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
    """Steps of the two optimizers, one after the other, that both take gradients which the first has unscaled."""
    first, second = facts.objects.objects(one), facts.objects.objects(other)
    found = [
        (call, statement, optimizers.optimizers_at(call.func.value))
        for call, statement in optimizers.steps
        if isinstance(call.func, cst.Attribute)
    ]
    for (call, statement, mine), (later, after, yours) in combinations(found, 2):
        is_pair = (mine & first and yours & second) or (mine & second and yours & first)
        if is_pair and mine != yours and statement.function is after.function and not statement.excludes(after):
            own = [loss.statement for loss in losses if loss.statement.function is statement.function]
            between = [backward for backward in own if statement.order < backward.order < after.order]
            last = max(between, key=lambda backward: backward.order, default=None)
            cleared = _cleared(facts, optimizers, first | second) if last is not None else []
            if last is None or not any(_stands_between(one, statement, last) for one in cleared):
                yield call, later


def _cleared(facts: Facts, optimizers: Optimizers, both: ObjectSet) -> list[Statement]:
    """Where gradients of one of both are cleared, or those of a model, and the calls that lead there."""
    found = []
    for call, statement in facts.tree.every(cst.Call):
        if called_name(call) == "zero_grad" and isinstance(call.func, cst.Attribute):
            objects = optimizers.optimizers_at(call.func.value)
            if not objects or objects & both:
                found.append(statement)
    holders = {statement.function for statement in found}
    leading = [function for function in facts.tree.functions if facts.calls.reaches(function, holders.__contains__)]
    return found + [site.statement for function in leading for site in facts.calls.callers(function)]


def _stands_between(statement: Statement, one: Statement, other: Statement) -> bool:
    return statement.function is one.function and one.order < statement.order < other.order
