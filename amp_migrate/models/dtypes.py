"""Dtypes as far as mixed precision tells them apart, and torch's promotion between them."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple


class Dtype(enum.Enum):
    """What a value consists of. All integers are one, both types of 16 bits are one, and so are all complex numbers."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    HALF = "half"
    SINGLE = "single"
    DOUBLE = "double"
    COMPLEX = "complex"
    NUMBER = "number"  # of Python: integer or float


BOOLEAN, INTEGER, HALF, SINGLE = Dtype.BOOLEAN, Dtype.INTEGER, Dtype.HALF, Dtype.SINGLE
DOUBLE, COMPLEX, NUMBER = Dtype.DOUBLE, Dtype.COMPLEX, Dtype.NUMBER
FLOATING = frozenset((HALF, SINGLE, DOUBLE))
TENSORS = frozenset(Dtype) - {NUMBER}

_ORDER = [BOOLEAN, INTEGER, HALF, SINGLE, DOUBLE, COMPLEX]


class Rank(enum.IntEnum):
    """Whose dtype counts for more in a promotion."""

    NUMBER = 0
    ZERO_DIM = 1
    DIMENSIONS = 2


class Given(NamedTuple):
    """One input of an operation."""

    dtype: Dtype
    rank: Rank = Rank.DIMENSIONS


def promoted(given: Iterable[Given]) -> Dtype:
    """The dtype of the result as torch promotes it ([T2.13:ATen/native/TypeProperties.cpp], result_type)."""
    inputs = list(given)
    ranks = sorted({one.rank for one in inputs}, reverse=True)
    widest = [max((one.dtype for one in inputs if one.rank is rank), key=_ORDER.index) for rank in ranks]
    result = widest[0]
    for lower in widest[1:]:
        if _category(lower) > _category(result):
            result = max(result, lower, key=_ORDER.index)
    return result


def _category(dtype: Dtype) -> int:
    """Booleans, integers, floating point numbers, complex numbers."""
    return 2 if dtype in FLOATING else (3 if dtype is COMPLEX else _ORDER.index(dtype))
