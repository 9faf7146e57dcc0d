"""Half values that a training hands to NumPy.

    output = model(x)                        (under autocast)
    score(output.detach().cpu().numpy())     =>    score(output.float().detach().cpu().numpy())

    preview(output)    with a function that hands `output[0].cpu().numpy()` on     =>    preview(output.float())

NumPy has no bfloat16 (TypeError), much of what takes its arrays no half (np.linalg, OpenCV, PIL, scipy.ndimage), and
its sums of half values are half. What trained in half before has handed on half as well; a plain loop never did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.dataflow import reads
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.facts.values import literal_value
from amp_migrate.facts.variables import Variable
from amp_migrate.interp.values import Values
from amp_migrate.plan.model import Backward
from amp_migrate.plan.regions.array_helpers import leads_to_numpy
from amp_migrate.plan.regions.forwards import Forwards
from amp_migrate.plan.regions.leaving import half_names, loads_after
from amp_migrate.plan.regions.moved import before_moves
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.regions.targets import plain_names
from amp_migrate.plan.regions.tensors import Tensors
from amp_migrate.plan.safety.precision import Precision, Precisions


def halves_for_numpy(
    facts: Facts,
    forwards: Forwards,
    regions: list[Region],
    precisions: Precisions,
    backwards: Iterable[Backward],
) -> list[cst.BaseExpression]:
    """The outputs of models that need `.float()`."""
    losses = {path[0] for backward in backwards for path in reads(backward.loss)}
    found: list[cst.BaseExpression] = []
    for region in regions:
        for name in _with_other_names(region, half_names(facts, forwards, region)):
            loads = _loads(facts, region, name, losses)
            found += [load for load in loads if load not in found and _is_half(precisions, load)]
    return found


def halves_before_numpy(facts: Facts, values: Values) -> Iterator[cst.BaseExpression]:
    """X of each `X.detach().cpu().numpy()` that may be half for all that is in sight."""
    for statement in facts.tree.all_statements():
        for given in _given_to_numpy(facts, statement):
            value = values.of(given)
            if value.may_be_half and not value.is_open:
                yield given


def _with_other_names(region: Region, names: Iterable[str]) -> list[str]:
    """The names, and those that go through what they hold: `output = outputs[-1]`, `for output in outputs`."""
    found = list(dict.fromkeys(names))
    for statement in (inner for one in region.statements() for inner in one.descendants()):
        node = statement.node
        if isinstance(node, cst.Assign) and len(node.targets) == 1:
            target, value = node.targets[0].target, node.value
        elif isinstance(node, cst.For):
            target, value = node.target, node.iter
        else:
            continue
        if isinstance(value, cst.Subscript):
            value = value.value
        if isinstance(target, cst.Name) and isinstance(value, cst.Name):
            found += [target.value] if value.value in found and target.value not in found else []
    return found


def _given_to_numpy(facts: Facts, statement: Statement) -> Iterator[cst.BaseExpression]:
    """X of `X.detach().cpu().numpy()`."""
    for call in facts.tree.calls(statement):
        if called_name(call) == "numpy" and isinstance(call.func, cst.Attribute) and not call.args:
            yield before_moves(call.func.value)


def _loads(facts: Facts, region: Region, name: str, losses: set[str]) -> list[cst.Name]:
    """The uses of a region's value that NumPy gets, if some use of it is one for floating tensors only."""
    tensors = Tensors(facts)
    variable = facts.names.visible(name, region.function)
    inside = [load for load in variable.loads if region.covers(facts.tree.statement_of(load))] if variable else []
    loads = [*inside, *loads_after(facts, name, region)]
    if not any(tensors.shows_floating(load) or _is_compared(facts, load, losses) for load in loads):
        return []
    given = [one for load in loads for one in _given_to_numpy(facts, facts.tree.statement_of(load))]
    after = [load for load in loads if load not in inside and variable and not _may_be_none(variable)]
    return [load for load in loads if load in given or (load in after and leads_to_numpy(facts, load))]


def _may_be_none(variable: Variable) -> bool:
    return any(binding.value is not None and literal_value(binding.value) is None for binding in variable.bindings)


def _is_compared(facts: Facts, load: cst.Name, losses: set[str]) -> bool:
    """True for `output` in `loss = criterion(output[1:], target)`, whatever the criterion is."""
    parent = facts.tree.parents.get(load)
    while isinstance(parent, cst.Subscript):
        parent = facts.tree.parents.get(parent)
    call = facts.tree.parents.get(parent) if isinstance(parent, cst.Arg) else None
    node = facts.tree.statement_of(load).node
    if not isinstance(call, cst.Call) or call.args[0] is not parent or not isinstance(node, cst.Assign):
        return False
    return node.value is call and bool(losses & set(plain_names(node.targets[0].target) or []))


def _is_half(precisions: Precisions, load: cst.Name) -> bool:
    """False for what is known to be float32 or no floating tensor at all."""
    found = precisions.of(load)
    return found.may_be_half or found is Precision.UNKNOWN
