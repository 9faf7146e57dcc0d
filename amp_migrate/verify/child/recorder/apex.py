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


def record_apex(tape: Tape, highest_scale: float | None) -> None:
    """`highest_scale` limits the first scale of each dynamic loss scaler."""
    after_import("apex", lambda module: _name(tape, module))
    after_import("apex.amp.scaler", lambda module: _limit_scale(module, highest_scale))
    after_import("apex.amp", lambda module: _record_amp(tape, module))
    after_import("apex.fp16_utils", lambda module: _record_fp16_utils(tape, module))


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
    initialize, scale_loss = amp.initialize, amp.scale_loss
    wrapped_loss = amp.opt.OptimWrapper.scale_loss

    @functools.wraps(initialize)
    def recorded_initialize(*args: Any, **keywords: Any) -> Any:
        result = initialize(*args, **keywords)
        if amp._amp_state.opt_properties.enabled:
            tape.record.levels.append(amp._amp_state.opt_properties.opt_level)
        return result

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
            _note_scaled(tape, scaler, loss, scaled)
            yield scaled

    amp.initialize = recorded_initialize
    amp.scale_loss = amp.handle.scale_loss = recorded_scale_loss
    amp.opt.OptimWrapper.scale_loss = recorded_wrapped_loss
    _record_skips_of(tape, amp.opt.OptimWrapper, lambda wrapper: wrapper._optimizer)


def _note_scaled(tape: Tape, scaler: Any, loss: torch.Tensor, scaled: torch.Tensor) -> None:
    factor = scaler.loss_scale()
    if scaler.dynamic or factor != 1.0:
        tape.scaled(scaled, factor, tape.scaler(scaler, "Apex", scaler.loss_scale), loss.dtype)


def _watch_skip(tape: Tape, optimizer: Any) -> None:
    """After an overflow apex puts a function that does nothing in place of the next `optimizer.step`."""
    skip = vars(optimizer).get("step")
    stash = getattr(optimizer, "_amp_stash", None)
    if skip is None or not getattr(stash, "already_patched", False) or hasattr(skip, "_is_watched"):
        return

    @functools.wraps(skip)
    def watched(*args: Any, **keywords: Any) -> Any:
        tape.step(optimizer, None)
        return skip(*args, **keywords)

    watched._is_watched = True  # type: ignore[attr-defined]
    optimizer.step = watched


def _record_fp16_utils(tape: Tape, fp16_utils: Any) -> None:
    wrapper = fp16_utils.FP16_Optimizer
    backward = wrapper.backward

    @functools.wraps(backward)
    def recorded_backward(self: Any, loss: torch.Tensor, *args: Any, **keywords: Any) -> Any:
        number = tape.scaler(self, "Apex", lambda: self.loss_scale)
        tape.backward(loss, None, autocast=False, about_to=(self.loss_scale, number))
        with tape.quiet():
            return backward(self, loss, *args, **keywords)

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
