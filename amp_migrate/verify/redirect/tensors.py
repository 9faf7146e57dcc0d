"""Tensors, modules and storages: where they say that they are, and moves between devices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from amp_migrate.verify.redirect.devices import CUDA, Device, is_cpu, is_cuda, redirected


def install() -> None:
    """Replace what tells or changes the place of tensors, modules and storages."""
    tensor: Any = torch.Tensor
    tensor.device = property(_device)
    tensor.is_cuda = property(lambda self: self.device.type == "cuda")
    tensor.get_device = lambda self: 0
    tensor.to = _tensor_to(tensor.to)
    tensor.cuda = _tensor_cuda
    tensor.cpu = _tensor_cpu
    tensor.pin_memory = tensor.record_stream = _itself
    module: Any = nn.Module
    module.to = _module_to(module.to)
    for storage in (torch.UntypedStorage, torch.TypedStorage):
        storage.cuda = storage.pin_memory = _itself  # type: ignore
    untyped: Any = torch.UntypedStorage
    untyped.to = _itself
    packed: Any = nn.utils.rnn
    packed._packed_sequence_init_args = _packed(packed._packed_sequence_init_args)


_real_device = torch._C.TensorBase.device.__get__


def _device(tensor: torch.Tensor) -> Any:
    """`cuda:0` for what is on the CPU; meta tensors stay what they are."""
    device = _real_device(tensor)
    return CUDA if device.type == "cpu" else device


def _itself(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self


def _tensor_cuda(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
    return self if memory_format is None else self.contiguous(memory_format=memory_format)


def _tensor_cpu(self: Any, memory_format: Any = None) -> Any:
    """A copy, as it is for a CUDA tensor: a snapshot of the weights must not follow the training."""
    return self.clone() if memory_format is None else self.clone(memory_format=memory_format)


def _tensor_to(to: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(to)
    def moved(self: Any, *args: Any, **kwargs: Any) -> Any:
        target = args[0] if args else kwargs.get("device")
        if is_cuda(target):
            if args:
                args = (redirected(target), *args[1:])
            else:
                kwargs["device"] = redirected(target)
        result = to(self, *args, **kwargs)
        return result.clone() if result is self and is_cpu(target) else result

    return moved


def _module_to(to: Callable[..., Any]) -> Callable[..., Any]:
    """Module.to for bare indexes, which a CPU build refuses to read; the tensors' own `.to` does the rest."""

    @functools.wraps(to)
    def moved(self: Any, *args: Any, **kwargs: Any) -> Any:
        args = tuple(_indexed(value) for value in args[:1]) + args[1:]
        kwargs = {name: _indexed(value) if name == "device" else value for name, value in kwargs.items()}
        return to(self, *args, **kwargs)

    return moved


def _packed(make: Callable[..., Any]) -> Callable[..., Any]:
    """Packed sequences insist that their sizes be on the CPU, unless sizes and data come as a pair."""

    @functools.wraps(make)
    def made(data: Any, batch_sizes: Any = None, *indices: Any) -> Any:
        return make(data if batch_sizes is None else (data, batch_sizes), None, *indices)

    return made


def _indexed(value: Any) -> Any:
    return Device("cuda", value) if isinstance(value, int) and is_cuda(value) else value
