"""Apex, the real one or our stand-in: its scaled losses, and the steps that its loss scalers skip.

Apex is patched when the script imports it; a script that does not never pays for it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

from amp_migrate.verify.child.imports import after_import
from amp_migrate.verify.child.recorder.tape import Tape
from amp_migrate.verify.form import FP16_OPTIMIZER, HANDLE


def record_apex(tape: Tape, highest_scale: float | None) -> None:
    """`highest_scale` limits the first scale of each dynamic loss scaler."""
    after_import("apex", lambda module: _name(tape, module))
    after_import("apex.amp.scaler", lambda module: _limit_scale(module, highest_scale))
    after_import("apex.amp", lambda module: _record_amp(tape, module))
    for name in ("apex.fp16_utils", "apex.optimizers", "apex.contrib.optimizers"):
        after_import(name, lambda module: _record_fp16_optimizer(tape, module))


def _name(tape: Tape, module: ModuleType) -> None:
    standin = getattr(module, "IS_STANDIN", False)
    version = getattr(module, "__version__", "")
    tape.record.apex = "stand-in" if standin else f"apex {version}".strip()


def _limit_scale(module: Any, highest_scale: float | None) -> None:
    init = module.LossScaler.__init__

    @functools.wraps(init)
    def limited(self: Any, *args: Any, **keywords: Any) -> None:
        init(self, *args, **keywords)
        if self.dynamic and highest_scale is not None:
            self._loss_scale = min(self._loss_scale, highest_scale)

    module.LossScaler.__init__ = limited


def _record_amp(tape: Tape, amp: Any) -> None:
    initialize, init, scale_loss = amp.initialize, amp.init, amp.scale_loss
    wrapped_loss = amp.opt.OptimWrapper.scale_loss

    @functools.wraps(initialize)
    def recorded_initialize(*args: Any, **keywords: Any) -> Any:
        result = initialize(*args, **keywords)
        if amp._amp_state.opt_properties.enabled:
            tape.record.levels.append(amp._amp_state.opt_properties.opt_level)
        return result

    @functools.wraps(init)
    def recorded_init(*args: Any, **keywords: Any) -> Any:
        handle = init(*args, **keywords)
        if handle.is_active():
            tape.record.levels.append(HANDLE)
        return handle

    @contextlib.contextmanager
    def recorded_scale_loss(loss: Any, optimizers: Any, loss_id: int = 0, *args: Any, **keywords: Any) -> Iterator[Any]:
        scaler = amp._amp_state.loss_scalers[loss_id] if hasattr(amp._amp_state, "loss_scalers") else None
        with scale_loss(loss, optimizers, loss_id, *args, **keywords) as scaled:
            if scaler is not None and scaled is not loss:
                _note_scaled(tape, scaler, loss, scaled)
            yield scaled
        for optimizer in optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]:
            _watch_skip(tape, optimizer)

    @contextlib.contextmanager
    def recorded_wrapped_loss(self: Any, loss: Any) -> Iterator[Any]:
        scaler = self._loss_scaler[self._loss_idx]
        with wrapped_loss(self, loss) as scaled:
            if scaled is not loss:
                _note_scaled(tape, scaler, loss, scaled)
            yield scaled

    amp.initialize, amp.init = recorded_initialize, recorded_init
    amp.scale_loss = amp.handle.scale_loss = recorded_scale_loss
    amp.opt.OptimWrapper.scale_loss = recorded_wrapped_loss
    _record_skips_of(tape, amp.opt.OptimWrapper, lambda wrapper: wrapper._optimizer)
    _record_loss_of_handle(tape, amp.handle.AmpHandle)


def _record_loss_of_handle(tape: Tape, handle: Any) -> None:
    """The first form of all, which later versions of Apex refuse; its scaler is that of the handle."""
    scale_loss = handle.scale_loss

    @contextlib.contextmanager
    def recorded_scale_loss(self: Any, loss: Any, optimizer: Any) -> Iterator[Any]:
        step = optimizer.step
        with scale_loss(self, loss, optimizer) as scaled:
            if scaled is not loss:
                _note_scaled(tape, self._default_scaler, loss, scaled)
            yield scaled
        if optimizer.step != step:
            _watch(tape, optimizer)

    handle.scale_loss = recorded_scale_loss


def _note_scaled(tape: Tape, scaler: Any, loss: torch.Tensor, scaled: torch.Tensor) -> None:
    factor = scaler.loss_scale()
    if scaler.dynamic or factor != 1.0:
        tape.scaled(scaled, factor, tape.scaler(scaler, "Apex", scaler.loss_scale), loss.dtype)


def _watch_skip(tape: Tape, optimizer: Any) -> None:
    """After an overflow apex puts a function that does nothing in place of the next `optimizer.step`."""
    stash = getattr(optimizer, "_amp_stash", None)
    if getattr(stash, "already_patched", False) and not hasattr(optimizer.step, "_is_watched"):
        _watch(tape, optimizer)


def _watch(tape: Tape, optimizer: Any) -> None:
    skip = optimizer.step

    @functools.wraps(skip)
    def watched(*args: Any, **keywords: Any) -> Any:
        tape.step(optimizer, None)
        return skip(*args, **keywords)

    watched._is_watched = True  # type: ignore[attr-defined]
    optimizer.step = watched


def _record_fp16_optimizer(tape: Tape, module: Any) -> None:
    wrapper = getattr(module, "FP16_Optimizer", None)
    if wrapper is None or hasattr(wrapper.backward, "_is_watched"):  # two modules may offer the same class
        return
    backward = wrapper.backward

    @functools.wraps(backward)
    def recorded_backward(self: Any, loss: torch.Tensor, *args: Any, **keywords: Any) -> Any:
        if FP16_OPTIMIZER not in tape.record.levels:
            tape.record.levels.append(FP16_OPTIMIZER)
        scales = self.loss_scale != 1.0  # its default is a static scale of 1
        about_to = (self.loss_scale, tape.scaler(self, "Apex", lambda: self.loss_scale)) if scales else None
        tape.backward(loss, None, autocast=False, about_to=about_to)
        with tape.quiet():
            return backward(self, loss, *args, **keywords)

    recorded_backward._is_watched = True  # type: ignore[attr-defined]
    wrapper.backward = recorded_backward
    _record_skips_of(tape, wrapper, lambda wrapped: wrapped.optimizer)


def _record_skips_of(tape: Tape, wrapper: Any, inner: Any) -> None:
    """A wrapper that returns from `step` without a step of its optimizer has skipped it."""
    step = wrapper.step

    @functools.wraps(step)
    def recorded_step(self: Any, *args: Any, **keywords: Any) -> Any:
        before = len(tape.record.steps)
        result = step(self, *args, **keywords)
        if len(tape.record.steps) == before:
            tape.step(inner(self), None)
        return result

    wrapper.step = recorded_step
