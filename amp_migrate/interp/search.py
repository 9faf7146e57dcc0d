"""Everything that makes a value: many steps back, through the operations that pass on what they are given."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

import libcst as cst

from amp_migrate.interp.place import Place
from amp_migrate.interp.step import Made
from amp_migrate.interp.steps import Steps
from amp_migrate.models import Operation

_MOST = 3000  # places on one search

Passes = Callable[[Operation], bool]
Stops = Callable[[Made], bool]


def never(made: Made) -> bool:
    """For a search that no result stops."""
    return False


@dataclasses.dataclass(frozen=True, slots=True)
class Trace:
    """What a value comes from.

    `ends` are the results of operations that do not pass, `passed` those of the others on the way, and `open` the
    places from where it leads out of sight. What else makes the value is constant. `places` are all on the way.
    """

    ends: tuple[Made, ...]
    passed: tuple[Made, ...]
    open: tuple[Place, ...]
    places: tuple[Place, ...]

    @property
    def made(self) -> tuple[Made, ...]:
        return (*self.ends, *self.passed)


def trace(
    steps: Steps,
    value: Place,
    passes: Passes,
    stops: Stops = never,
    *,
    of_dtype: bool = False,
    without: Collection[cst.BaseExpression] = (),
) -> Trace:
    """The ways back from a value, each to the first operation that does not pass, or to a result that stops it. A way
    that leads out of sight ends there, and the others go on.

    What is written into it in place counts as well; for where its dtype comes from (`of_dtype`) it does not, and that
    of `torch.zeros_like(x)` and `w.type_as(x)` comes from x. No way goes through the expressions `without`.
    """
    ends: dict[Made, None] = {}
    passed: dict[Made, None] = {}
    seen: dict[Place, None] = {}
    open_: dict[Place, None] = {}
    waiting = [value]
    while waiting:
        place = waiting.pop()
        if place in seen or place.node in without:
            continue
        seen[place] = None
        if len(seen) > _MOST:
            open_[place] = None
            continue
        step = steps.of(place)
        if step.is_lost:
            open_[place] = None
        waiting += [*step.same, *(() if of_dtype else step.written)]
        for made in step.made:
            if of_dtype and isinstance(made.cast, Place) and not stops(made):  # `w.type_as(x)`; `w.to(x)` may be a move
                passed[made] = None
                moves = any(one is not None and one.by_argument for one in made.operations)
                waiting += [made.cast, *(made.operands[:1] if moves else ())]
            elif all(one is not None and passes(one) for one in made.operations) and not stops(made):
                passed[made] = None
                waiting += made.operands[:1] if of_dtype and made.is_a("like") else contributing(made)
            else:
                ends[made] = None
    return Trace(tuple(ends), tuple(passed), tuple(open_), tuple(seen))


def contributing(made: Made) -> tuple[Place, ...]:
    """The operands whose numbers the result is made of: one, where the operation takes one tensor."""
    operation = made.operations[0]
    if operation is not None and operation.is_a("like"):
        return ()
    if operation is not None and operation.shape_only and operation.inputs == 2:
        return made.operands[:1]  # `x.view_as(y)`
    is_of_one = operation is not None and operation.inputs == 1 and not operation.in_place
    return made.operands[operation.operand : operation.operand + 1] if operation and is_of_one else made.operands
