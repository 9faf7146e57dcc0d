"""What leaves an autocast region: half tensors must not reach a criterion outside of it (rule E3)."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.check.regions import autocast_items
from amp_migrate.check.scalers import Scalers
from amp_migrate.check.violation import Violation, violation
from amp_migrate.facts import Facts
from amp_migrate.facts.reaching import reaching
from amp_migrate.facts.tree import Statement, called_name
from amp_migrate.interp.place import Place
from amp_migrate.interp.steps import Steps
from amp_migrate.interp.values import values_as_written
from amp_migrate.models import Dtype, function, names
from amp_migrate.models.queries import in_float32, is_refused, keeps_numbers, passes_on


def check_autocast(facts: Facts, scalers: Scalers, *, whole: bool) -> Iterator[Violation]:
    """Criteria outside of a region that take what a model call inside of it made, as it came out.

    Where the files are not `whole`, only in functions that train: for a metric it hardly matters.
    """
    training = {statement.function for statement, _ in scalers.of_kind("backward")}
    for statement in facts.tree.all_statements():
        if any(autocast_items(facts, statement)):
            if not whole and not facts.calls.reaches(statement.function, training.__contains__):
                continue
            made = _made_by_calls(facts, statement)
            for following in statement.next_siblings():
                yield from _criteria_on(facts, following, statement, made, whole=whole)


def _made_by_calls(facts: Facts, region: Statement) -> set[str]:
    """The names that calls in a region may leave a half tensor under."""
    made: set[str] = set()
    exact: set[str] = set()
    for inner in region.descendants():
        node = inner.node
        if isinstance(node, cst.Assign) and isinstance(node.value, cst.Call):
            assigned = {target.target.value for target in node.targets if isinstance(target.target, cst.Name)}
            if _is_float32(facts, node.value) or _reshaped(node.value) in exact:
                if inner.block.owner is region:  # on every path
                    made -= assigned
                exact |= assigned - made
            else:
                made |= assigned
                exact -= assigned
    return made


def _reshaped(call: cst.Call) -> str | None:
    """X of `X.view(n, -1)`, which has the dtype of X."""
    receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
    return receiver.value if isinstance(receiver, cst.Name) and called_name(call) in names(keeps_numbers) else None


def _criteria_on(
    facts: Facts, statement: Statement, region: Statement, made: set[str], *, whole: bool
) -> Iterator[Violation]:
    for inner in statement.descendants():
        if any(any(autocast_items(facts, outer)) for outer in inner.path()):
            continue
        for part in facts.tree.expressions(inner):
            if isinstance(part, cst.Call) and part.args and _is_loss(facts, part):
                given = part.args[0].value
                is_half = isinstance(given, cst.Name) and given.value in made and _comes_from(facts, given, region)
                if is_half and isinstance(given, cst.Name) and not _is_float32_here(facts, part, given, whole=whole):
                    message = f"{facts.text(part.func)} gets {given.value} in half, outside of autocast"
                    yield violation(facts, "criterion on half", part, message)


def _comes_from(facts: Facts, name: cst.Name, region: Statement) -> bool:
    """True for a name that may still have what a statement in a region has given it."""
    variable = facts.names.variable_at(name)
    bound = reaching(variable, facts.tree.statement_of(name)) if variable is not None else []
    return any(one.statement is not None and one.statement.inside(region) for one in bound)


def _is_float32_here(facts: Facts, criterion: cst.Call, name: cst.Name, *, whole: bool) -> bool:
    """True for the output of a model that ends in a log_softmax, say: autocast runs that in float32. A binary cross
    entropy raises on half values beside float32 targets, so that a model out of sight gives it float32.
    """
    value = facts.analysis(values_as_written).of(name)
    return value.dtypes == {Dtype.SINGLE} or (value.is_open and not whole and _raises_on_half(facts, criterion))


def _is_float32(facts: Facts, call: cst.Call) -> bool:
    """A loss, a `.float()`, or a sigmoid of one: `torch.sigmoid(x.float())`."""
    if _is_loss(facts, call) or called_name(call) == "float":
        return True
    inputs = [arg.value for arg in call.args[:1]] or ([call.func.value] if isinstance(call.func, cst.Attribute) else [])
    is_float = any(isinstance(one, cst.Call) and called_name(one) == "float" for one in inputs)
    return is_float and called_name(call) in names(passes_on) | names(in_float32)


def _is_loss(facts: Facts, call: cst.Call) -> bool:
    """A loss function of torch, or an object made by one of its loss classes."""
    row = function(facts.names.dotted(call.func) or "")
    if row is not None and row.is_a("loss"):
        return True
    objects = facts.objects.objects(call.func) if isinstance(call.func, (cst.Name, cst.Attribute)) else ()
    made = (facts.names.dotted(one.origin.func) or "" for one in objects if isinstance(one.origin, cst.Call))
    return any(name.startswith("torch.nn.") and name.endswith("Loss") for name in made)


def _raises_on_half(facts: Facts, criterion: cst.Call) -> bool:
    rows = facts.analysis(Steps).of(Place(criterion)).rows
    return any(row is not None and is_refused(row) for row in rows)
