"""What is a CUDA device, and what is used in its place."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _device

Device = torch.device  # the real class: `torch.device` itself is replaced below
CPU = Device("cpu")
CUDA = Device("cuda", 0)


def is_cuda(value: object) -> bool:
    """Whether the value names a CUDA device: "cuda", "cuda:1", torch.device("cuda"), or a bare index."""
    if isinstance(value, Device):
        return value.type == "cuda"
    if isinstance(value, str):
        return value.partition(":")[0] == "cuda"
    return isinstance(value, int) and not isinstance(value, bool)


def is_cpu(value: object) -> bool:
    """Whether the value names the CPU: "cpu" or torch.device("cpu")."""
    return isinstance(value, (str, Device)) and Device(value) == CPU


def redirected(device: Any) -> Any:
    """The CPU for a CUDA device; anything else unchanged."""
    return CPU if is_cuda(device) else device


class _DeviceType(type):
    """Makes devices for bare indexes too, which a CPU build of torch refuses; instances are real devices."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], int):
            return Device("cuda", args[0])
        return Device(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Device)


def _enter_redirected(context: Any, device: Any) -> None:
    """In the place of DeviceContext.__init__, which `with torch.device(...)` and set_default_device use."""
    _init(context, redirected(device))


_init = _device.DeviceContext.__init__


def install() -> None:
    """Replace torch.device, and the device of `with torch.device(...)`."""
    # Module and name are torch's, so that devices can be pickled.
    torch.device = _DeviceType("device", (), {"__module__": "torch"})  # type: ignore[misc, assignment]
    context: Any = _device.DeviceContext
    context.__init__ = _enter_redirected
