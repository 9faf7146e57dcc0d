"""Which dtypes an operation is asked with: its inputs cast, and the answer as one letter."""

from __future__ import annotations

from typing import Any

import torch

from amp_migrate.models import Dtype
from amp_migrate.models.dtypes import Given, Rank
from tests.operations.samples import Sample
from tests.operations.trees import is_number_like, on_tensors, tensors

HALF, SINGLE, DOUBLE = torch.float16, torch.float32, torch.float64
# The dtype of the first floating input, and of the others. "0": float32 without dimensions. "n": as the sample has it.
QUESTIONS: dict[str, tuple[torch.dtype | str, torch.dtype | str]] = {
    "h": (HALF, HALF),
    "f": (SINGLE, SINGLE),
    "d": (DOUBLE, DOUBLE),
    "i": (torch.int64, torch.int64),
    "b": (torch.bool, torch.bool),
    "c": (torch.complex64, torch.complex64),
    "m": (HALF, SINGLE),
    "w": (SINGLE, HALF),
    "q": (HALF, DOUBLE),
    "0": (HALF, "0"),
    "n": ("n", "n"),
}
MIXED = "mwq0"

LETTERS: dict[torch.dtype, str] = {
    torch.float16: "h", torch.bfloat16: "h", torch.float32: "f", torch.float64: "d", torch.bool: "b",
    torch.complex32: "c", torch.complex64: "c", torch.complex128: "c",
}  # fmt: skip
MEANINGS = {
    "h": Dtype.HALF, "f": Dtype.SINGLE, "d": Dtype.DOUBLE, "i": Dtype.INTEGER, "b": Dtype.BOOLEAN, "c": Dtype.COMPLEX,
    "N": Dtype.NUMBER,
}  # fmt: skip
NOTHING, RAISES, REFUSED, NO_ANSWER = "-", "E", "A", "?"
_NUMBERS = (bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool, torch.Size)


def apply(question: str, sample: Sample) -> Sample | None:
    """The sample with the dtypes of a question; None where the question does not fit."""
    given = tensors((sample.args, sample.kwargs))
    floating = [one for one in given if is_number_like(one)]
    if question == "n":
        return sample if not floating else None
    if not given or (question in MIXED and len(floating) < 2):
        return None
    changed = 0

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal changed
        if floating and not is_number_like(tensor):
            return tensor
        want = QUESTIONS[question][min(changed, 1)]
        changed += 1
        return tensor.flatten()[0].to(SINGLE) if want == "0" else tensor.to(want)

    args, kwargs = on_tensors((sample.args, sample.kwargs), cast)
    return Sample(args, kwargs, sample.made)


def inputs(sample: Sample) -> list[Given]:
    """What the table is asked with for a sample whose dtypes are set."""
    return [
        Given(MEANINGS[LETTERS.get(one.dtype, "i")], Rank.DIMENSIONS if one.ndim else Rank.ZERO_DIM)
        for one in tensors((sample.args, sample.kwargs))
    ]


def answer(output: Any) -> tuple[str, ...]:
    """The letters of what an operation returned: one, or one for each part of a tuple."""
    if isinstance(output, torch.Tensor):
        return (LETTERS.get(output.dtype, "i"),)
    if isinstance(output, _NUMBERS):
        return ("N",)
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, (list, tuple)):
        return tuple(letter for part in output for letter in answer(part)[:1]) or (NOTHING,)
    return (NOTHING,)


def predicted(dtype: Dtype | None) -> str:
    """The letter of what the table says; None is an error or nothing."""
    return next((letter for letter, meant in MEANINGS.items() if meant is dtype), NOTHING)
