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
from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.facts.contents import ANY
from amp_migrate.facts.tree import Function, Statement
from amp_migrate.interp.calls import MOST_FRAMES
from amp_migrate.interp.place import Frames, Place
from amp_migrate.interp.step import Made
from amp_migrate.interp.values import Values
from amp_migrate.models.queries import writes
from amp_migrate.plan.regions.region import Region
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.numbers import magnifies
from amp_migrate.plan.safety.precision import Precision, Precisions
from amp_migrate.plan.safety.products import tensors
from amp_migrate.plan.safety.repairs import Safety

_MOST_WAYS = 8  # to one function, that are told apart


def context_after(facts: Facts, regions: Sequence[Region], values: Values, safety: Safety) -> Context:
    """What runs without autocast in the functions of the regions, in those that they call there, and in their callers,
    which get what they return and keep.
    """
    after = _After(facts, regions, values)
    return Context(facts, after, _PrecisionsAfter(facts, safety, values, after), safety)


def raise_operands(context: Context) -> None:
    """Float32 for what half rounds too much in arithmetic, whatever takes the result."""
    raised = {made.node: made for made in context.results if _needs_float32(context, made)}
    for operand in (one for made in raised.values() for one in made.operands):
        is_raised = context.precisions.behind(operand.node) in raised
        if not is_raised and context.precisions.of(operand.node) is Precision.HALF:
            context.safety.keep_float32(operand.node)


def match_operands(context: Context) -> None:
    """Float32 for what is multiplied, and for what is half beside what is not in an operation that takes one dtype."""
    for made in context.results:
        row = made.operation
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
    scalars = [one for one in made.operands if is_arithmetic and context.values.at(one).is_zero_dim]
    is_beside = len(scalars) < len(made.operands)  # two such tensors are promoted
    return is_beside and any(context.precisions.of(one.node) is Precision.SINGLE for one in scalars)


@dataclasses.dataclass
class _After:
    """The statements. A function that regions run as well is among them with the `frames` of the calls outside that
    hand half values to it.
    """

    facts: Facts
    regions: Sequence[Region]
    values: Values
    classes: tuple[()] = ()
    frames: dict[Function, set[Frames]] = dataclasses.field(default_factory=dict)

    @cached_property
    def statements(self) -> list[Statement]:
        waiting: list[tuple[Function, Frames]] = [(one.function, ()) for one in self.regions]
        found: dict[Statement, None] = {}
        while waiting:
            function, frames = waiting.pop()
            ways = self.frames.setdefault(function, set())
            if frames in ways or len(ways) == _MOST_WAYS:
                continue
            ways.add(frames)
            calls = [self.facts.tree.statement_of(one.call) for one in frames if one.call is not None]
            outside = [one for one in function.descendants() if not self.values.runs_under_autocast([*calls, one])]
            found |= dict.fromkeys(outside)
            waiting += [
                way for one in outside for call in self.facts.tree.calls(one) for way in self._into(call, frames)
            ]
            if not frames:
                waiting += [(at.function, ()) for _, at in self.facts.objects.possible_callers(function)]
        return [*found]

    def _into(self, call: cst.Call, frames: Frames) -> Iterator[tuple[Function, Frames]]:
        """The functions and forwards that a call enters, with the frames of those that regions run as well."""
        calls = self.values.steps.calls
        for frame in dict.fromkeys((*calls.entered(call), *calls.handed(call))):
            if not all(self.values.runs_under_autocast([one]) for one in frame.function.descendants()):
                yield frame.function, ()
            elif self._is_given_half(call, frames) or any(map(self.may_be_half, self._kept_by(frame.function))):
                yield frame.function, (*frames, frame)[-MOST_FRAMES:]

    def _is_given_half(self, call: cst.Call, frames: Frames) -> bool:
        return any(self.may_be_half(Place(arg.value, keys, frames)) for arg in call.args for keys in ((), (ANY,)))

    def _kept_by(self, function: Function) -> Iterator[Place]:
        """What a method reads of its object: the state that an earlier call has left."""
        for statement in function.descendants() if function.receiver else ():
            for part in self.facts.tree.expressions(statement):
                if isinstance(part, cst.Attribute) and isinstance(part.value, cst.Name):
                    if part.value.value == function.receiver and self.facts.tree.call_of(part) is None:
                        yield Place(part)

    def may_be_half(self, place: Place) -> bool:
        """True for what may be half, since a region may have made it."""
        return self.values.at(place).may_be_half and self.values.may_leave_autocast(place)

    def calls(self) -> Iterator[tuple[cst.Call, Statement]]:
        return ((call, one) for one in self.statements for call in self.facts.tree.calls(one))


class _PrecisionsAfter(Precisions):
    """Half is what comes out of a region, or may come out of it as far as anybody sees."""

    def __init__(self, facts: Facts, safety: Safety, values: Values, after: _After) -> None:
        super().__init__(facts, safety)
        self.values = values
        self.after = after

    def of(self, node: cst.BaseExpression, frames: Frames = ()) -> Precision:
        found = super().of(node, frames)
        is_known = not found.may_be_half and found is not Precision.UNKNOWN
        if is_known or self.values.at(Place(node, (), frames)).is_container:
            return found
        places = [Place(node, (), frames)] if frames else self.places(node)
        return Precision.HALF if any(map(self.after.may_be_half, places)) else Precision.SINGLE

    def places(self, node: cst.BaseExpression) -> list[Place]:
        ways = self.after.frames.get(self.facts.tree.function_of(node)) or ((),)
        return [Place(node, (), frames) for frames in ways]
