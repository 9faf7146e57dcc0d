"""How the dtype of a result follows from those of the inputs: a policy of autocast, then a rule of the operation.

A policy casts the inputs before the operation sees them, so that the rule is the same inside and outside of a region.
Rules answer with None where torch raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from amp_migrate.models.dtypes import (
    BOOLEAN,
    COMPLEX,
    DOUBLE,
    FLOATING,
    HALF,
    INTEGER,
    NUMBER,
    SINGLE,
    TENSORS,
    Dtype,
    Given,
    Rank,
    promoted,
)

Rule = Callable[[Sequence[Given], int], "Dtype | None"]
_CAST = (HALF, SINGLE)  # autocast leaves everything else alone


def _same(inputs: Sequence[Given], operand: int) -> Dtype:
    return inputs[min(operand, len(inputs) - 1)].dtype


def _promoted(inputs: Sequence[Given], operand: int) -> Dtype:
    return promoted(inputs)


def _mapped(rule: Rule, changes: dict[Dtype, Dtype]) -> Rule:
    def changed(inputs: Sequence[Given], operand: int) -> Dtype | None:
        result = rule(inputs, operand)
        return changes.get(result, result) if result is not None else None

    return changed


def _always(dtype: Dtype | None) -> Rule:
    return lambda inputs, operand: dtype


_TO_FLOAT = {BOOLEAN: SINGLE, INTEGER: SINGLE}
_TO_REAL = {COMPLEX: SINGLE}

RULES: dict[str, Rule] = {
    "same": _same,  # the dtype of one input: a view, relu, an in-place form
    "promoted": _promoted,  # add, mul, where, cat
    "floating": _mapped(_promoted, _TO_FLOAT),  # sin, div: integers become float32
    "wide": _mapped(_promoted, dict.fromkeys((BOOLEAN, INTEGER, HALF, SINGLE), DOUBLE)),  # float_power
    "real": _mapped(_same, _TO_REAL),  # abs
    "real floating": _mapped(_promoted, _TO_FLOAT | _TO_REAL),  # angle, irfft
    "summed": _mapped(_same, {BOOLEAN: INTEGER}),  # sum, cumsum, prod
    "boolean": _always(BOOLEAN),  # isnan, eq
    "integer": _always(INTEGER),  # argmax
    "half": _always(HALF),
    "single": _always(SINGLE),  # float(), and factories under the default dtype
    "double": _always(DOUBLE),
    "complex": _always(COMPLEX),  # fft
    "number": _always(NUMBER),  # item, size
    "either": _always(SINGLE),  # half or float32
    "any": _always(SINGLE),  # any dtype: of an array
    "nothing": _always(None),  # no value, or one that is neither tensor nor number
    "weight": _mapped(_same, {HALF: SINGLE}),  # a parameter: scripts that train keep them in float32
}
# What a project may say of its own operations.
RESULTS = ("same", "promoted", "half", "single", "double", "integer", "boolean", "complex", "number", "either")
CONSTANT = ("boolean", "integer", "half", "single", "double", "complex", "number", "either", "any", "nothing")
WRITTEN = ("weight",)  # of rows by hand alone
PROMOTED = ("promoted", "floating", "wide", "real floating")
TAKE_ONE = frozenset(("same", "weight", "real", "summed"))
# Results that nothing given decides: of layers that depend on how they were made, of arrays (complex ones are shown).
SETS = {"either": frozenset((HALF, SINGLE)), "any": TENSORS - {COMPLEX}}


def _to_half(inputs: Sequence[Given]) -> Sequence[Given]:
    return [one._replace(dtype=HALF) if one.dtype in _CAST else one for one in inputs]


def _to_single(inputs: Sequence[Given]) -> Sequence[Given]:
    return [one._replace(dtype=SINGLE) if one.dtype in _CAST else one for one in inputs]


def _to_widest(inputs: Sequence[Given]) -> Sequence[Given]:
    return _to_single(inputs) if any(one.dtype is SINGLE for one in inputs) else inputs


INSIDE = "half inside"  # a composite: its own products run in half, and so its result is, whatever it takes


def _as_it_is(inputs: Sequence[Given]) -> Sequence[Given]:
    return inputs


POLICIES: dict[str, Callable[[Sequence[Given]], Sequence[Given]]] = {
    "": _as_it_is,
    "half": _to_half,
    "single": _to_single,
    "widest": _to_widest,
    INSIDE: _as_it_is,
}


def are_mixed(inputs: Sequence[Given]) -> bool:
    """True for floating dtypes that differ, which most kernels refuse; those of scalars do not count."""
    return len({one.dtype for one in inputs if one.dtype in FLOATING and one.rank is Rank.DIMENSIONS}) > 1
