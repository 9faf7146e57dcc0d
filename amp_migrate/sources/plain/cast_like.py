"""Models that are trained in the type of something else, which may be half.

    adapter = nn.Linear(512, 64).to(backbone.dtype)
    self.context = nn.Parameter(torch.empty(16, 512, dtype=dtype))       where dtype = backbone.dtype

A GradScaler refuses to unscale half gradients (`Attempting to unscale FP16 gradients.`), and who asks another for its
type does so because it may be no float32.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Statement, called_name, targets
from amp_migrate.findings import Refusal
from amp_migrate.models import names
from amp_migrate.models.queries import takes_dtype
from amp_migrate.rules.plain import CHOSEN_PRECISION
from amp_migrate.sources.half.modules import Modules
from amp_migrate.sources.optimizers import find_optimizers


@dataclasses.dataclass(frozen=True)
class _Made:
    """What is made in the type of something else, with the models that it may be or belong to."""

    node: cst.BaseExpression
    models: list[cst.BaseExpression]
    kind: cst.BaseExpression
    is_weight: bool = False


def cast_like_another(facts: Facts) -> Refusal | None:
    """The refusal of such a model, None without one."""
    found = [*_casts(facts), *_weights(facts)]
    if not found:
        return None
    modules = Modules(facts, find_optimizers(facts))
    for one in found:
        if (one.is_weight or modules.is_whole(one.node)) and any(map(modules.is_trained, one.models)):
            message = f"{facts.text(one.node)} is trained in the type of {facts.text(one.kind)}, which may be half"
            return Refusal(CHOSEN_PRECISION, one.node, message, case="like another")
    return None


def _casts(facts: Facts) -> Iterator[_Made]:
    """`adapter.to(backbone.dtype)`, of what may be a model."""
    for call, statement in facts.tree.every(cst.Call):
        if isinstance(call.func, cst.Attribute) and called_name(call) in names(takes_dtype):
            kind = _type_of_another(facts, call)
            if kind is not None:
                yield _Made(call.func.value, [call.func.value, *_owners(statement)], kind)


def _weights(facts: Facts) -> Iterator[_Made]:
    """`self.context = nn.Parameter(vectors)`."""
    for call, statement in facts.tree.every(cst.Call):
        if called_name(call) == "Parameter" and call.args:
            tensors = [call.args[0].value, *facts.objects.values_of(call.args[0].value)]
            kinds = [kind for one in tensors if isinstance(one, cst.Call) and (kind := _type_of_another(facts, one))]
            if kinds:
                yield _Made(call, _owners(statement), kinds[0], is_weight=True)


def _owners(statement: Statement) -> list[cst.BaseExpression]:
    """`self`, where a statement makes one of its attributes."""
    return [target.value for target in targets(statement.node) if isinstance(target, cst.Attribute)]


def _type_of_another(facts: Facts, call: cst.Call) -> cst.BaseExpression | None:
    """`backbone` of `.to(backbone.dtype)`, or of `dtype=dtype` where that is its name."""
    for arg in call.args:
        for value in (arg.value, *facts.objects.values_of(arg.value)):
            if not isinstance(value, cst.Attribute) or facts.objects.values_of(value):
                continue
            if value.attr.value == "dtype":
                return None if _is_in_float32(facts, value.value) else value.value
        if any(one.kind == "field" and one.origin == "dtype" for one in facts.objects.objects(arg.value)):
            return arg.value  # what a function is given
    return None


def _is_in_float32(facts: Facts, node: cst.BaseExpression) -> bool:
    """True for a layer of torch's that is made in sight, and for its weights: nothing here casts to half."""
    calls = [one.source.origin for one in facts.objects.objects(node)]
    return bool(calls) and all(
        isinstance(call, cst.Call)
        and any(path.startswith("torch.nn.") for path in facts.objects.import_paths(call.func))
        for call in calls
    )
