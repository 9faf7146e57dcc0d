"""Reading a checkpoint without running any code of it.

torch's weights-only unpickler knows tensors and plain containers. Beyond them, as classes of ours that do nothing, only
two kinds are let in: the loss scalers that FP16_Optimizer pickled into its state (Apex before 2019-02 its own, later
amp's), and plain data of other packages (`opaque`).
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from amp_migrate.checkpoint.errors import CheckpointError
from amp_migrate.checkpoint.opaque import OPAQUE, stand_in


class PickledScaler:
    """An Apex loss scaler out of a pickle: its attributes, and no methods."""


_SCALERS = [
    stand_in("apex.amp.scaler", "LossScaler", PickledScaler),
    stand_in("apex.fp16_utils.loss_scaler", "LossScaler", PickledScaler),
    stand_in("apex.fp16_utils.loss_scaler", "DynamicLossScaler", PickledScaler),
]


def load(path: Path) -> Any:
    """What `torch.save` wrote, in any of its formats since torch 0.4, with all tensors on the CPU.

    Raises CheckpointError: no such file, no checkpoint, an incomplete one, or one that asks for other classes.
    """
    if os.path.isdir(path):
        raise CheckpointError("is a folder")
    if not os.path.isfile(path):
        raise CheckpointError("does not exist, or is no file")
    try:
        with _only_data_allowed(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(f"can't be read: {error.strerror or error}") from None
    except Exception as error:  # bytes that are no checkpoint end in errors of any type
        raise CheckpointError(_explanation(error)) from None


def is_zip(path: Path) -> bool:
    """True for the format since torch 1.6, False for the older one: torch looks at the same bytes."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


@contextlib.contextmanager
def _only_data_allowed() -> Iterator[None]:
    """The allowed classes are a setting of the process; what others have allowed does not count here."""
    before = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals([*_SCALERS, *OPAQUE])
    try:
        yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


def _explanation(error: Exception) -> str:
    text = str(error)
    asked = re.search(r"GLOBAL (\S+)", text)
    if asked:
        return (
            f"asks for {asked[1]}, which is not data but code: it is not loaded. If you trust the file, load it with "
            "torch.load(..., weights_only=False) where it was written, put plain values in the place of that object "
            "(dict(config), model.state_dict()), save it, and convert that"
        )
    if "Unsupported operand" in text:
        return "is no checkpoint of torch.save, or one with another pickle protocol than torch's own (2)"
    if "legacy .tar format" in text:
        return "was written by torch before 0.4, in a format that can't be read without running its code"
    if "TorchScript" in text:
        return "is a TorchScript archive: a program, not a checkpoint"
    reason = text.partition(". ")[0].partition("\n")[0] if isinstance(error, RuntimeError) else ""
    return "is no checkpoint of torch.save, or an incomplete one" + (f" ({reason})" if reason else "")
