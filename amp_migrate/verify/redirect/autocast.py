"""The state of CUDA's autocast, kept in the CPU's: regions and custom_fwd then work unchanged.

torch.autocast, torch.cuda.amp.autocast and custom_fwd read and write that state through the functions replaced here.
Without a device they speak of CUDA's.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch


class _Chosen(threading.local):
    """The dtype of regions that name none. A new thread starts with CUDA's float16, not with the CPU's bfloat16."""

    dtype = torch.float16


_chosen = _Chosen()
_real_get_dtype = torch.get_autocast_dtype
_real_set_dtype = torch.set_autocast_dtype
_real_set_enabled: Any = torch.set_autocast_enabled


def install() -> None:
    """Put CUDA's state in the place of the CPU's."""
    torch.is_autocast_enabled = _for_the_cpu(torch.is_autocast_enabled)
    torch.set_autocast_enabled = _set_enabled  # type: ignore[assignment]
    torch.get_autocast_dtype = _get_dtype
    torch.set_autocast_dtype = _set_dtype
    torch.get_autocast_gpu_dtype = lambda: _chosen.dtype
    torch.set_autocast_gpu_dtype = lambda dtype: _set_dtype("cuda", dtype)


def _for_the_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def asked(device_type: str = "cuda") -> Any:
        return function("cpu" if device_type == "cuda" else device_type)

    return asked


def _set_enabled(*device_and_enabled: Any) -> None:
    *device, enabled = device_and_enabled
    if device in ([], ["cuda"]):
        _real_set_dtype("cpu", _chosen.dtype)
        device = ["cpu"]
    _real_set_enabled(*device, enabled)


def _get_dtype(device_type: str) -> torch.dtype:
    return _chosen.dtype if device_type == "cuda" else _real_get_dtype(device_type)


def _set_dtype(device_type: str, dtype: torch.dtype) -> None:
    if device_type == "cuda":
        _chosen.dtype = dtype
    _real_set_dtype("cpu" if device_type == "cuda" else device_type, dtype)
