"""Questions that are asked of all rows by a bare name: `names(in_half)`."""

from __future__ import annotations

from amp_migrate.models.dtypes import COMPLEX, HALF, SINGLE
from amp_migrate.models.operation import Operation
from amp_migrate.models.rules import INSIDE
from amp_migrate.models.table import layer, layers, method, names
from amp_migrate.models.traits import named

_FOLLOWS = ("same", "promoted", "floating", "real", "real floating", "summed")
_FLOATING = ("half", "single", "double")


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


def follows(row: Operation) -> bool:
    """Without autocast its result has the dtype of what it is given."""
    is_number = row.kind == "property" and not row.shape_only
    return row.result in _FOLLOWS and not row.by_argument and not row.outputs and not is_number


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


def retypes(row: Operation) -> bool:
    """The result has the numbers of the input in another dtype."""
    return row.by_argument or (row.result in ("single", "double") and row.kind == "method")


def rearranges(row: Operation) -> bool:
    """The result has every number of the input, in another shape, order or dtype."""
    return (row.shape_only or retypes(row)) and not row.is_a("part")


def product_in_place(row: Operation) -> bool:
    """The form in place of a product that autocast runs in half: autocast leaves it alone."""
    product = method(row.bare.removesuffix("_"))
    return row.in_place and not row.policy and product is not None and product.policy == "half"


def writes(row: Operation) -> bool:
    """It writes one tensor into another, which must have the same dtype."""
    is_write = row.half_kernel and row.result == "same" and row.inputs in (2, 3) and row.second >= 0
    return is_write and not row.reduction and wants_one_dtype(row) and not product_in_place(row)


def takes_two(row: Operation) -> bool:
    """A product, a loss, or a write of one tensor into another: its second tensor can be nothing else."""
    return _has_second(row) and (row.product or row.reduction or writes(row))


def tensor_places(row: Operation) -> tuple[int, ...]:
    """The positions that take floating tensors and nothing else: `n_fft` of stft is a number, its window has a name."""
    if not row.strict:
        return tuple(range(row.inputs))
    return (0, *range(row.second, row.second + row.inputs - 1)) if _has_second(row) else (0,)


def _has_second(row: Operation) -> bool:
    """There is a place for a second tensor, which takes no number instead."""
    return row.second >= 0 and not (row.is_a("write of a number") or row.is_a("quantile"))


def has_parameters(row: Operation) -> bool:
    """A layer with parameters, unless it is told otherwise."""
    return row.parameters


def is_exact(row: Operation) -> bool:
    """Its result is never half, nor of another kind where the input is: numbers of Python, integers, booleans."""
    return row.result in ("integer", "boolean", "number", "nothing")


def only_moves(row: Operation) -> bool:
    """The result has the numbers of the input, in another shape or place."""
    return row.shape_only


def keeps_numbers_or_floats(row: Operation) -> bool:
    """The same, or in float32: `x.squeeze(1).float()`."""
    return row.shape_only or (row.result == "single" and row.kind == "method")


def is_scalar_arithmetic(row: Operation) -> bool:
    """Autocast leaves it alone, and it is a multiple or a mean of what it is given, its number, or itself detached."""
    is_scaled = row.reduction or row.drops_gradient or row.is_a("quotient") or row.is_a("product of numbers")
    return not row.policy and ((row.linear == "linear" and is_scaled) or row.result == "number")


def is_sum(row: Operation) -> bool:
    """A sum, which autocast makes float32."""
    return row.policy == "single" and row.result == "summed" and row.linear == "linear"


def makes(row: Operation) -> bool:
    """It makes a tensor of what is none: `zeros`, `tensor`, `from_numpy`."""
    return row.kind == "function" and (row.result == "any" or (row.inputs == 0 and not is_exact(row)))


def makes_leaf(row: Operation) -> bool:
    """It makes a tensor whose gradient may be asked for."""
    return makes(row) or row.is_a("like") or row.is_a("leaf")


def is_pure(row: Operation) -> bool:
    """It draws no random numbers and changes nothing."""
    return row.kind != "layer" and not row.in_place and not row.is_a("random")


def keeps_numbers(row: Operation) -> bool:
    """Its result is what it is given, moved, copied or in another shape."""
    is_moved = row.view != "" or row.is_a("copy")
    return row.kind != "property" and row.shape_only and is_moved and not row.is_a("chance")


def takes_dtype(row: Operation) -> bool:
    """A method with an argument that is a dtype, of what it is called on: `to`."""
    return row.kind == "method" and row.by_argument


def casts(row: Operation) -> bool:
    """A method that makes floating numbers of another dtype of what it is called on."""
    return takes_dtype(row) or (row.kind == "method" and row.result in _FLOATING)


def to_float32(row: Operation) -> bool:
    """A method that casts to float32, whatever it is called on: `float`."""
    return row.kind == "method" and row.result == "single" and not row.policy


def is_product(row: Operation) -> bool:
    """A product of two tensors that autocast runs in half."""
    return row.policy == "half" and (row.product or row.is_a("sum with a product"))


def copies(row: Operation) -> bool:
    """The tensor once more, in its shape."""
    return casts(row) or row.is_a("copy")


def carries(row: Operation) -> bool:
    """It computes nothing but another dtype."""
    return keeps_numbers(row) or casts(row)


def may_be_same(row: Operation) -> bool:
    """Its result may be what it is given, or a view of that."""
    return row.view != "" or casts(row)


def keeps_dtype(row: Operation) -> bool:
    """Its one result has the dtype of what it is given, whatever else that is."""
    return passes_on(row) and not row.by_argument and not row.outputs


def scales(row: Operation) -> bool:
    """It multiplies or divides number by number, in place or not."""
    return _is_one_of(row, "product of numbers", "quotient")


def multiplies(row: Operation) -> bool:
    """It multiplies number by number, in place or not."""
    return _is_one_of(row, "product of numbers")


def adds(row: Operation) -> bool:
    """It adds or subtracts number by number, in place or not."""
    return _is_one_of(row, "sum of two", "difference")


def is_linear_in_one(row: Operation) -> bool:
    """Linear in the one tensor that it takes, overflows included, and of its dtype."""
    keeps = row.result == "same" and not row.by_argument and not row.is_a("chance") and not row.is_a("mending")
    return row.linear == "linear" and row.inputs == 1 and keeps


def creates(row: Operation) -> bool:
    """A tensor whose numbers are not those of another one."""
    makes = row.inputs == 0 and row.result not in ("number", "nothing")
    return makes or row.is_a("like")


def counts(row: Operation) -> bool:
    """It makes integers or booleans, whatever it is given."""
    return row.result in ("integer", "boolean")


def describes(row: Operation) -> bool:
    """It says something of a tensor: its shape, its dtype, its number of elements."""
    is_number = row.result == "number" and row.inputs <= 1 and row.bare != "item"
    return is_number or (row.kind == "property" and not row.view)


def cuts_gradient(row: Operation) -> bool:
    """No gradient comes through it, though it is called with a tensor."""
    return row.drops_gradient and row.kind != "property" and not row.by_argument


def updates(row: Operation) -> bool:
    """It changes a tensor in place by another one."""
    return row.in_place and row.inputs > 1


def module_of(name: str) -> str:
    """The class of torch.nn that computes what an operation of one tensor does, by its full name; "" without one."""
    row = layer(f"torch.nn.{name.capitalize()}")
    return row.name if row is not None else ""


def _is_one_of(row: Operation, *traits: str) -> bool:
    names = {row.bare, row.bare.removesuffix("_")}
    return any(names & named(trait) for trait in traits)
