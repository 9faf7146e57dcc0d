"""Runs with another precision than the script's own.

`without_amp` forces autocast, GradScaler, Apex and casts to half off: what is left is the plain float32 program.
`under_autocast` puts that program under one autocast, to see how much of it half precision reaches, and how far that
moves the first loss.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

from amp_migrate.verify.child.imports import after_import

_to = torch.Tensor.to
_LOW = (torch.float16, torch.bfloat16)
_LOW_TYPES = tuple(f"torch.{place}{name}Tensor" for place in ("", "cuda.") for name in ("Half", "BFloat16"))


def without_amp() -> None:
    """For the rest of the process; call it before the script runs."""
    without_autocast()
    for name in ("half", "bfloat16"):
        setattr(torch.Tensor, name, _copied)
        setattr(torch.nn.Module, name, torch.nn.Module.float)
    for cls in (torch.Tensor, torch.nn.Module):
        for name in ("to", "type"):
            setattr(cls, name, _never_low(getattr(cls, name)))
    after_import("apex.amp", _switch_off_amp)
    for name in ("apex.fp16_utils", "apex.optimizers", "apex.contrib.optimizers"):
        after_import(name, _switch_off_fp16_optimizer)


def without_autocast() -> None:
    """As `without_amp`, but casts stay: none is left in a right migration to native AMP that matters for training."""
    _switch_off(torch.amp.autocast_mode.autocast)
    _switch_off(torch.amp.GradScaler)


def _copied(self: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    """A cast to half is a new tensor: what is changed in place is not what was cast."""
    return _to(self, torch.float32, copy=True)


def _never_low(cast: Any) -> Any:
    """`.to(torch.float16)` and `.type(torch.half)` give float32."""

    @functools.wraps(cast)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        return cast(self, *map(_full, args), **{name: _full(arg) for name, arg in keywords.items()})

    return call


def _full(arg: Any) -> Any:
    named = f"{arg.__module__}.{arg.__name__}" if isinstance(arg, type) else arg
    if isinstance(named, (torch.dtype, str)) and (named in _LOW or named in _LOW_TYPES):
        return torch.float32
    if isinstance(arg, torch.Tensor) and arg.dtype in _LOW:  # `x.to(other)`
        return torch.float32
    return arg


def _switch_off(cls: Any) -> None:
    init = cls.__init__

    @functools.wraps(init)
    def switched_off(self: Any, *args: Any, **keywords: Any) -> None:
        init(self, *args, **keywords)
        self._enabled = False

    cls.__init__ = switched_off


def _switch_off_amp(amp: Any) -> None:
    initialize, init = amp.initialize, amp.init

    @functools.wraps(initialize)
    def disabled_initialize(models: Any, optimizers: Any = None, *_: Any, **keywords: Any) -> Any:
        result = initialize(models, optimizers, enabled=False)
        # Apex has neither then, and scripts save their state, and switch casts off for a while.
        amp._amp_state.handle = amp.handle.NoOpHandle()
        amp._amp_state.loss_scalers = [amp.scaler.LossScaler(1.0) for _ in range(keywords.get("num_losses", 1))]
        return result

    @functools.wraps(init)
    def disabled_init(*_: Any, **__: Any) -> Any:
        return init(enabled=False)

    amp.initialize, amp.init = disabled_initialize, disabled_init


def _switch_off_fp16_optimizer(module: Any) -> None:
    wrapper = getattr(module, "FP16_Optimizer", None)
    if wrapper is None:
        return
    init, loss_scale = wrapper.__init__, wrapper.loss_scale

    @functools.wraps(init)
    def unscaled_init(self: Any, init_optimizer: Any, *_: Any, **__: Any) -> None:
        init(self, init_optimizer, verbose=False)

    wrapper.__init__ = unscaled_init
    wrapper.loss_scale = property(loss_scale.fget, lambda self, value: None)  # scripts may set it later


def under_autocast(device: str, dtype: str) -> None:
    """Autocast over everything but backward and optimizer steps, for the rest of the process."""
    without_amp()
    torch.set_autocast_dtype(device, getattr(torch, dtype))
    torch.set_autocast_cache_enabled(False)  # a cached cast would outlive the step that changes its weight
    torch.set_autocast_enabled(device, True)
    torch.autograd.backward = _without_autocast(torch.autograd.backward, device)
    bce = torch.nn.functional.binary_cross_entropy
    torch.nn.functional.binary_cross_entropy = _without_autocast(_in_float32(bce), device)

    def off(*_: Any) -> None:
        torch.set_autocast_enabled(device, False)

    def on(*_: Any) -> None:
        torch.set_autocast_enabled(device, True)

    torch_optimizer.register_optimizer_step_pre_hook(off)
    torch_optimizer.register_optimizer_step_post_hook(on)


def _without_autocast(function: Any, device: str) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        torch.set_autocast_enabled(device, False)
        try:
            return function(*args, **keywords)
        finally:
            torch.set_autocast_enabled(device, True)

    return call


def _in_float32(function: Any) -> Any:
    """With what it is given, if that is low, in float32."""

    def full(value: Any) -> Any:
        return value.float() if isinstance(value, torch.Tensor) and value.dtype in _LOW else value

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        return function(*map(full, args), **{name: full(value) for name, value in keywords.items()})

    return call
