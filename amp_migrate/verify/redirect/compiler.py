"""torch.compile gives back what it gets: compiled code would not see the redirect."""

from __future__ import annotations

from typing import Any

import torch


def install() -> None:
    """Make torch.compile give back what it gets."""
    torch.compile = _compile


def _compile(model: Any = None, **options: Any) -> Any:
    return model if model is not None else lambda function: function
