"""Functions that make tensors, generators or storages on a device that they are given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.jit import _builtins
from torch.utils import _device

from amp_migrate.verify.redirect.devices import CPU, CUDA, redirected

_OTHERS = "empty_like full_like ones_like rand_like randint_like randn_like zeros_like normal".split()
_METHODS = "new_empty new_empty_strided new_full new_ones new_tensor new_zeros".split()


def install() -> None:
    """Replace every factory of torch, torch.fft, torch.nested and torch.Tensor, torch.Generator and torch.load."""
    for function in _device._device_constructors():
        _replace(_owner(function), function)
    for name in _OTHERS:
        _replace(torch, getattr(torch, name))
    for name in _METHODS:
        _replace(torch.Tensor, getattr(torch.Tensor, name))
    # A class method that data-loader workers use for the batches they hand over.
    shared = torch.UntypedStorage._new_shared.__func__  # type: ignore[attr-defined]
    torch.UntypedStorage._new_shared = classmethod(on_the_cpu(shared))  # type: ignore
    torch.Generator = _GeneratorType("Generator", (torch.Generator,), {"__module__": "torch", "device": CUDA})  # type: ignore
    torch.load = _load(torch.load)


def on_the_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with `device="cuda"` read as the CPU, and without page-locked memory, which needs a GPU."""

    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = redirected(kwargs["device"])
        kwargs.pop("pin_memory", None)
        return function(*args, **kwargs)

    return made


def _replace(owner: Any, function: Callable[..., Any]) -> None:
    replaced = on_the_cpu(function)
    setattr(owner, function.__name__.removeprefix("fft_"), replaced)
    builtins: Any = _builtins
    if operator := builtins._find_builtin(function):  # so that torch.jit.script still knows it
        builtins._register_builtin(replaced, operator)


def _owner(function: Callable[..., Any]) -> Any:
    """The public module of a factory: torch, torch.fft or torch.nested."""
    return {"torch._C._fft": torch.fft, "torch.nested": torch.nested}.get(function.__module__, torch)


class _GeneratorType(type(torch.Generator)):  # type: ignore[misc]
    """A class whose generators run on the CPU; `torch.default_generator`, made earlier, counts as one of them."""

    _real = torch.Generator

    def __call__(cls, device: Any = None) -> Any:
        return super().__call__(CPU)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _GeneratorType._real)


def _load(load: Callable[..., Any]) -> Callable[..., Any]:
    """torch.load that puts everything on the CPU; a function given as map_location is still called."""

    @functools.wraps(load)
    def loaded(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return load(f, map_location if callable(map_location) else CPU, *args, **kwargs)

    return loaded
