"""Several GPUs: DataParallel runs its module itself, processes talk through gloo."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import distributed, nn

# A group of gloo that is destroyed when the last model over it goes can wait for its own thread for ever: this thread
# needs Python's lock for what it still holds, and the thread that destroys has it (torch 2.13). So groups stay.
_groups: list[Any] = []


def install() -> None:
    """Replace the constructors of the parallel wrappers and of process groups."""
    data_parallel: Any = nn.DataParallel
    data_parallel.__init__ = _data_parallel
    parallel: Any = nn.parallel.DistributedDataParallel
    parallel.__init__ = _without_devices(parallel.__init__)
    if distributed.is_available():
        wrapped: Any = distributed
        wrapped.init_process_group = _through_gloo(wrapped.init_process_group)
        wrapped.new_group = _through_gloo(wrapped.new_group)
        wrapped.is_nccl_available = lambda: True


def _data_parallel(
    self: Any, module: nn.Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
) -> None:
    """Without device_ids, DataParallel's own forward calls the module directly."""
    nn.Module.__init__(self)
    self.module = module
    self.device_ids = []
    self.output_device = output_device
    self.dim = dim


def _without_devices(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def built(
        self: Any, module: nn.Module, device_ids: Any = None, output_device: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        init(self, module, None, None, *args, **kwargs)

    return built


def _through_gloo(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def joined(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        args = tuple(_gloo(value) for value in args)
        made = function(*args, **{name: _gloo(value) for name, value in kwargs.items()})
        _groups.append(made or distributed.group.WORLD)  # one makes the default group, and returns nothing
        return made

    return joined


def _gloo(value: Any) -> Any:
    return "gloo" if isinstance(value, str) and "nccl" in value.lower() else value
