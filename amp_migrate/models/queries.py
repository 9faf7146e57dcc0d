"""Questions that are asked of all rows by a bare name: `names(in_half)`."""

from __future__ import annotations

from amp_migrate.models.dtypes import HALF
from amp_migrate.models.operation import Operation

_FOLLOWS = ("same", "promoted", "floating", "real", "real floating", "summed")


def in_half(row: Operation) -> bool:
    """Autocast runs it in half."""
    return row.policy == "half"


def in_float32(row: Operation) -> bool:
    """Autocast runs it in float32."""
    return row.policy == "single"


def never_in_half(row: Operation) -> bool:
    """Autocast casts nothing to half for it."""
    return row.policy != "half"


def passes_on(row: Operation) -> bool:
    """It takes one tensor, and its result is in half where that is."""
    return not row.policy and row.result in _FOLLOWS and row.inputs == 1 and row.half_kernel and row.kind != "property"


def without_half(row: Operation) -> bool:
    """It has no kernel for half, and autocast casts nothing for it."""
    return HALF in row.without and not row.policy


def is_refused(row: Operation) -> bool:
    """It raises under autocast, whatever its inputs are."""
    return row.raises_under_autocast


def wants_one_dtype(row: Operation) -> bool:
    """It raises where half and float32 meet, under autocast as well."""
    return row.strict and not row.policy


def product_in_place(row: Operation) -> bool:
    """It multiplies matrices into the first of its inputs, which autocast leaves alone."""
    return row.in_place and row.product and wants_one_dtype(row)


def has_parameters(row: Operation) -> bool:
    """A layer with parameters, unless it is told otherwise."""
    return row.parameters


def makes_tensor(row: Operation) -> bool:
    """It makes a tensor of numbers."""
    return row.inputs == 0 and row.result in ("single", "half", "double", "integer", "boolean", "complex")
