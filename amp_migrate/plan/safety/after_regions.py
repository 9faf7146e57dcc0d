"""Half outputs after a region, where autocast casts nothing: operations break as they would inside, or meet float32.

    with autocast(...):
        scores = model(images)
    seen[mask] = scores.detach()[mask]            =>    seen[mask] = scores.detach()[mask].to(seen.dtype)
    torch.mm(scores, projection)                  =>    torch.mm(scores.float(), projection)
    scores.masked_fill(mask, -1e9)                =>    scores.float().masked_fill(mask, -1e9)

In a loop that may stand before the region: it gets what the round before has left. What no region made is what it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.interp.values import Values
from amp_migrate.models.queries import writes
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.numbers import magnifies
from amp_migrate.plan.safety.precision import Precision, Precisions
from amp_migrate.plan.safety.products import tensors
from amp_migrate.plan.safety.repairs import Safety


def context_after(facts: Facts, regions: Sequence[Region], values: Values, safety: Safety) -> Context:
    """What runs without autocast in the functions of the regions, in those that they call there, and in their callers,
    which get what they return and keep.
    """
    return Context(facts, _After(facts, regions, values), _PrecisionsAfter(facts, safety, values), safety)


def match_operands(context: Context) -> None:
    """Float32 for what is multiplied, and for what is half beside what is not in an operation that takes one dtype."""
    raised = {made.node for made in context.results if _needs_float32(context, made)}
    for made in context.results:
        row = made.operation
        for operand in made.operands if made.node in raised else ():
            is_raised = context.precisions.behind(operand.node) in raised
            if not is_raised and context.precisions.of(operand.node) is Precision.HALF:
                context.safety.keep_float32(operand.node)
        multiplies = any(one is not None and (one.product or one.parameters) for one in made.operations)
        if not multiplies and (row is None or writes(row) or not row.strict):
            continue
        found = {one.node: context.precisions.of(one.node) for one in tensors(made)}
        halves = [node for node, precision in found.items() if precision.may_be_half]
        if multiplies or len(halves) < len(found):
            for node in halves:
                context.safety.keep_float32(node)


def _needs_float32(context: Context, made: Made) -> bool:
    """True for a metric in millimetres, and for arithmetic with a float32 tensor without dimensions, beside which half
    stays half: `spread * scores + mean`.
    """
    if made.is_a("product of numbers") and any(magnifies(context.facts, one.node) for one in made.operands):
        return True
    is_arithmetic = made.operation is not None and made.operation.elementwise and len(made.operands) == 2
    scalars = (one for one in made.operands if is_arithmetic and context.values.at(one).is_zero_dim)
    return any(context.precisions.of(one.node) is Precision.SINGLE for one in scalars)


def keep_inputs(context: Context) -> None:
    """Float32 for what a module of the unit is given."""
    calls = context.steps.calls
    for call, _ in context.reach.calls():
        if any(one.function.name == "forward" and one.function.is_method for one in calls.entered(call)):
            _keep_tensors(context, (arg.value for arg in call.args))


def keep_returned(context: Context, regions: Sequence[Region]) -> None:
    """Float32 for what a function returns to files outside of the unit, which got it in float32 before."""
    covered = [inner for region in regions for one in region.statements() for inner in one.descendants()]
    for statement in (*context.reach.statements, *covered):
        value = statement.node.value if isinstance(statement.node, cst.Return) else None
        if value is None or not context.facts.is_used_outside(statement.function):
            continue
        shown = [one.value for one in value.elements] if isinstance(value, (cst.Tuple, cst.List)) else [value]
        _keep_tensors(context, shown)


def _keep_tensors(context: Context, given: Iterable[cst.BaseExpression]) -> None:
    """Float32 for what is a tensor in sight: what code out of sight makes may be a list of them."""
    for node in given:
        value = context.values.of(node)
        if value.may_be_half and not value.is_open and context.precisions.of(node) is Precision.HALF:
            context.safety.keep_float32(node)


@dataclasses.dataclass
class _After:
    """The statements."""

    facts: Facts
    regions: Sequence[Region]
    values: Values
    classes: tuple[()] = ()

    @cached_property
    def statements(self) -> list[Statement]:
        waiting = [one.function for one in self.regions]
        seen: dict[Function, None] = {}
        found = []
        while waiting:
            function = waiting.pop()
            if function in seen:
                continue
            seen[function] = None
            outside = [one for one in function.descendants() if not self.values.runs_under_autocast([one])]
            found += outside
            waiting += [site.callee for one in outside for site in self.facts.calls.in_statement(one)]
            waiting += [at.function for _, at in self.facts.objects.possible_callers(function)]
        return found

    def calls(self) -> Iterator[tuple[cst.Call, Statement]]:
        return ((call, one) for one in self.statements for call in self.facts.tree.calls(one))


class _PrecisionsAfter(Precisions):
    """Half is what comes out of a region, or may come out of it as far as anybody sees."""

    def __init__(self, facts: Facts, safety: Safety, values: Values) -> None:
        super().__init__(facts, safety)
        self.values = values

    def of(self, node: cst.BaseExpression) -> Precision:
        found = super().of(node)
        is_known = not found.may_be_half and found is not Precision.UNKNOWN
        if is_known or self.values.of(node).is_container:
            return found
        return Precision.HALF if self.values.may_leave_autocast(Place(node)) else Precision.SINGLE
