"""What one step back from a place leads to."""

from __future__ import annotations

import dataclasses

import libcst as cst

from amp_migrate.facts.contents import Key
from amp_migrate.interp.place import Place
from amp_migrate.models import Dtype, Operation


@dataclasses.dataclass(frozen=True, slots=True)
class Made:
    """The result of operations of torch, of which the first gets the operands and each other one the result before.

    They are several where a container of layers is called; None stands for one that is not known. `output` is the key
    of the result that is meant, where the last operation has several; None for a tensor, or any part of one. `cast` is
    the dtype that the call asks for, or the tensor whose dtype it asks for. `is_plain` says that the call has no
    argument but tensors: `x.mean()`, not `x.mean(1)`.
    """

    node: cst.BaseExpression
    operations: tuple[Operation | None, ...]
    operands: tuple[Place, ...]
    output: Key | None = None
    cast: frozenset[Dtype] | Place | None = None
    is_plain: bool = False

    @property
    def operation(self) -> Operation | None:
        """The operation, where it is one that is known."""
        return self.operations[0] if len(self.operations) == 1 else None

    def is_a(self, trait: str) -> bool:
        """True for the result of one operation with a trait of `models/traits.json`."""
        return self.operation is not None and self.operation.is_a(trait)


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """What a value may be: that of one of other places (`same`), the result of an operation (`made`), a constant of the
    program, or something out of sight (`is_lost`). More than one may hold; nothing holds for what is never run.

    `written` are the values that are written into it in place, which keep its dtype. A list, a dict and the like
    (`is_container`) and an instance of a class of the unit or of torch.distributions (`is_instance`) are no tensors,
    whatever is known of them.
    """

    same: tuple[Place, ...] = ()
    made: tuple[Made, ...] = ()
    written: tuple[Place, ...] = ()
    is_constant: bool = False
    is_lost: bool = False
    is_container: bool = False
    is_instance: bool = False

    @property
    def rows(self) -> list[Operation | None]:
        """The operations that make it, one after the other; None for each that is not known."""
        return [row for made in self.made for row in made.operations]


LOST = Step(is_lost=True)
CONSTANT = Step(is_constant=True)


def either(steps: list[Step]) -> Step:
    """What may be one or the other."""
    return Step(
        tuple(place for one in steps for place in one.same),
        tuple(made for one in steps for made in one.made),
        tuple(place for one in steps for place in one.written),
        any(one.is_constant for one in steps),
        any(one.is_lost for one in steps),
        any(one.is_container for one in steps),
        any(one.is_instance for one in steps),
    )
