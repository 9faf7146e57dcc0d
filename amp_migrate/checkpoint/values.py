"""Numbers out of a file that may hold anything in their place."""

from __future__ import annotations

from typing import Any

import torch

from amp_migrate.checkpoint.errors import CheckpointError


def number(value: Any) -> float:
    """A number, also out of a tensor of one element. Raises CheckpointError."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise CheckpointError(f"there is a {type(value).__name__} where a number belongs") from None


def count(value: Any) -> int:
    """A whole number. Raises CheckpointError."""
    found = number(value)
    if not found.is_integer():  # nor are NaN and the infinities
        raise CheckpointError(f"there is {found} where a count belongs")
    return int(found)
