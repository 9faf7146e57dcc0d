"""The source form of an original: what was seen while it ran, not what its text looks like.

A script with its flag off is a plain one, whatever it imports.
"""

from __future__ import annotations

from typing import Literal

from amp_migrate.verify.record import Record

# What stands in `Record.levels` for the interfaces that have none.
HANDLE = "amp.init"
FP16_OPTIMIZER = "FP16_Optimizer"

Form = Literal[
    "patched by Apex",  # O1 and the old handle: float32 weights, functions of torch cast
    "cast by Apex",  # O2 and O3: weights in half precision, modules that give float32 to the outside
    "FP16_Optimizer",
    "half by hand",  # weights in half precision, with or without a loss scale of the script's own
    "native",  # autocast or GradScaler
    "float32",
]


def form_of(original: Record) -> Form:
    """The first that applies, from the most to the least specific sign."""
    levels = set(original.levels) - {"O0"}
    if FP16_OPTIMIZER in levels:
        return "FP16_Optimizer"
    if levels:
        return "patched by Apex" if levels <= {"O1", HANDLE} else "cast by Apex"
    if original.half_weights:
        return "half by hand"
    return "native" if is_native(original) else "float32"


def is_native(record: Record) -> bool:
    """True where autocast or a GradScaler was on."""
    return record.autocast or any(scaler.kind == "GradScaler" for scaler in record.scalers)
