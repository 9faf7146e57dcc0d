"""What passes on the numbers that it is given, for the ways back from a hazard."""

from __future__ import annotations

from amp_migrate.interp.step import Made
from amp_migrate.models import Dtype, Operation
from amp_migrate.models.queries import retypes


def moves(row: Operation) -> bool:
    """The result has numbers of the input, in another shape, another order, another dtype, or not all of them."""
    return row.shape_only or row.picks or retypes(row) or row.is_a("list")


def bounds(row: Operation) -> bool:
    """The same, within bounds."""
    return moves(row) or row.is_a("bound")


def bounds_and_epsilons(row: Operation) -> bool:
    """Bounds, and a small number that is added."""
    return bounds(row) or row.is_a("sum of two")


def computes_linearly(row: Operation) -> bool:
    """Moves, and sums and multiples of what it is given, number by number."""
    return bounds(row) or (row.elementwise and row.linear in ("linear", "affine"))


def adds_up(row: Operation) -> bool:
    """The same, and sums over dimensions."""
    return computes_linearly(row) or row.is_a("sum")


def keeps_float32(row: Operation) -> bool:
    """Autocast runs it in the dtype of what it is given, or in float32."""
    return row.policy != "half" and not row.raises_under_autocast and row.result not in ("half", "nothing", "unknown")


def casts_to(made: Made, *dtypes: Dtype) -> bool:
    """True for a cast to one of some dtypes: `x.float()`, `x.to(torch.float32)`."""
    row = made.operation
    asked = made.cast if isinstance(made.cast, frozenset) else frozenset()
    is_named = row is not None and row.result in {one.value for one in dtypes}
    return row is not None and row.kind == "method" and (is_named or (bool(asked) and asked <= {*dtypes}))
