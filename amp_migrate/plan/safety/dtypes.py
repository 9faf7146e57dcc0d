"""What a value may be under autocast: a set of dtypes, and the answer that repairs ask for."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from amp_migrate.models import Dtype

Dtypes = frozenset[Dtype]  # what a value may be; empty where nothing is known

NOTHING_KNOWN: Dtypes = frozenset()
HALF: Dtypes = frozenset((Dtype.HALF,))
SINGLE: Dtypes = frozenset((Dtype.SINGLE,))
FLOATING: Dtypes = HALF | SINGLE
NUMBER: Dtypes = frozenset((Dtype.NUMBER,))
OTHER: Dtypes = frozenset(Dtype) - FLOATING - NUMBER


class Precision(enum.Enum):
    """What a value is."""

    HALF = "a half tensor"
    SINGLE = "a float32 tensor"
    FLOATING = "a tensor, half or float32"
    OTHER = "a tensor of integers, booleans, doubles or complex numbers"
    NUMBER = "a number of Python"
    UNKNOWN = "anything"

    @property
    def is_tensor(self) -> bool:
        return self not in (Precision.NUMBER, Precision.UNKNOWN)

    @property
    def may_be_half(self) -> bool:
        """True for tensors that autocast may have made half."""
        return self in (Precision.HALF, Precision.FLOATING)


_PRECISIONS = (
    (HALF, Precision.HALF),
    (SINGLE, Precision.SINGLE),
    (FLOATING, Precision.FLOATING),
    (OTHER, Precision.OTHER),
    (NUMBER, Precision.NUMBER),
)


def precision(dtypes: Dtypes) -> Precision:
    """The narrowest answer that holds for all of them."""
    fitting = (answer for meant, answer in _PRECISIONS if dtypes <= meant)
    return next(fitting, Precision.UNKNOWN) if dtypes else Precision.UNKNOWN


def is_tensor(dtypes: Dtypes) -> bool:
    """True for what certainly is one."""
    return precision(dtypes).is_tensor


def either(found: Iterable[Dtypes]) -> Dtypes:
    """What may be one or the other; nothing is known where nothing is known of one."""
    kinds = list(found)
    return frozenset().union(*kinds) if all(kinds) else NOTHING_KNOWN
