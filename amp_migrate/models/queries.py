"""Questions that are asked of all rows by a bare name: `names(in_half)`."""

from __future__ import annotations

from amp_migrate.models.dtypes import COMPLEX, HALF, SINGLE
from amp_migrate.models.operation import Operation
from amp_migrate.models.rules import INSIDE
from amp_migrate.models.table import layer, layers, method, names

_FOLLOWS = ("same", "promoted", "floating", "real", "real floating", "summed")


def in_half(row: Operation) -> bool:
    """Autocast runs it in half."""
    return row.policy == "half"


def in_float32(row: Operation) -> bool:
    """Autocast runs it in float32."""
    return row.policy == "single"


def may_compute_in_half(row: Operation) -> bool:
    """Autocast runs it, or a part of it, in half."""
    return row.policy in ("half", INSIDE) or row.result in ("half", "either", "unknown") or row.is_a("of layers")


def never_in_half(row: Operation) -> bool:
    """Autocast casts nothing to half for it."""
    return row.policy != "half"


def passes_on(row: Operation) -> bool:
    """One tensor decides: its result is in half where that is."""
    one_decides = row.inputs == 1 or (row.takes_one and row.operand == 0)
    return not row.policy and row.result in _FOLLOWS and one_decides and row.half_kernel and row.kind != "property"


def without_half(row: Operation) -> bool:
    """It has no kernel for half, takes floating numbers, and autocast makes nothing float32 for it."""
    return HALF in row.without and SINGLE not in row.without and row.policy not in ("single", "widest")


def refused() -> frozenset[str]:
    """The bare names of functions and layers that raise under autocast, whatever their inputs are."""
    return names(is_refused) | layers(is_refused)


def casts_again(row: Operation) -> bool:
    """A composite without a kernel for half, whose own products autocast runs in half."""
    return without_half(row) and row.policy == INSIDE


def takes_complex(row: Operation) -> bool:
    """Without a kernel for half; complex numbers are welcome, and their results are complex as well."""
    return without_half(row) and row.result == "complex" and COMPLEX not in row.without


def sums_in_half(row: Operation) -> bool:
    """A sum that autocast does not make float32: with many elements it overflows."""
    return row.reduction and row.linear == "linear" and "n" in row.grows and not row.policy and row.inputs == 1


def breaks_in_half(row: Operation) -> bool:
    """It raises in half, or overflows."""
    return without_half(row) or sums_in_half(row)


def is_refused(row: Operation) -> bool:
    """It raises under autocast, whatever its inputs are."""
    return row.raises_under_autocast


def wants_one_dtype(row: Operation) -> bool:
    """It raises where half and float32 meet, under autocast as well."""
    return row.strict and not row.policy


def multiplies_sparse(row: Operation) -> bool:
    """It multiplies with a sparse matrix, which CUDA does not in half."""
    return row.policy == "half" and (row.is_a("sparse product") or row.name.startswith("torch.sparse."))


def half_inside(row: Operation) -> bool:
    """A composite with a kernel for half, whose own products autocast runs in half: what it sums may overflow."""
    return row.policy == INSIDE and row.half_kernel


def casts(row: Operation) -> bool:
    """The result has the numbers of the input in another dtype."""
    return row.by_argument or (row.result in ("single", "double") and row.kind == "method")


def rearranges(row: Operation) -> bool:
    """The result has every number of the input, in another shape, order or dtype."""
    return (row.shape_only or casts(row)) and not row.is_a("part")


def product_in_place(row: Operation) -> bool:
    """The form in place of a product that autocast runs in half: autocast leaves it alone."""
    product = method(row.bare.removesuffix("_"))
    return row.in_place and not row.policy and product is not None and product.policy == "half"


def writes(row: Operation) -> bool:
    """It writes one tensor into another, which must have the same dtype."""
    is_write = row.half_kernel and row.result == "same" and row.inputs in (2, 3) and row.second >= 0
    return is_write and wants_one_dtype(row) and not product_in_place(row)


def layer_of(name: str) -> str:
    """The layer that calls a function by its name: `torch.nn.Sigmoid` of sigmoid; no text where there is none."""
    path = f"torch.nn.{name.capitalize()}"
    return path if layer(path) is not None else ""


def has_parameters(row: Operation) -> bool:
    """A layer with parameters, unless it is told otherwise."""
    return row.parameters
