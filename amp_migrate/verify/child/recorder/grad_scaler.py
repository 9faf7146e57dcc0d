"""torch's GradScaler: what it scales, which steps it makes and which it skips."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch

from amp_migrate.verify.child.recorder.tape import Tape


def record_grad_scalers(tape: Tape, highest_scale: float | None) -> None:
    """Methods of the base class: torch.cuda.amp.GradScaler and torch.cpu.amp.GradScaler inherit them.

    `highest_scale` limits the first scale of each.
    """
    scaler_class: Any = torch.amp.GradScaler
    init, scale, step = scaler_class.__init__, scaler_class.scale, scaler_class.step

    @functools.wraps(init)
    def recorded_init(self: Any, *args: Any, **keywords: Any) -> None:
        init(self, *args, **keywords)
        if self.is_enabled() and highest_scale is not None:
            self._init_scale = min(self._init_scale, highest_scale)

    @functools.wraps(scale)
    def recorded_scale(self: Any, outputs: Any) -> Any:
        result = scale(self, outputs)
        if self.is_enabled():
            number = tape.scaler(self, "GradScaler", self.get_scale)
            for loss, given in zip(_tensors(result), _tensors(outputs), strict=False):
                tape.scaled(loss, self._get_scale_async().detach().clone(), number, given.dtype)
        return result

    @functools.wraps(step)
    def recorded_step(self: Any, optimizer: Any, *args: Any, **keywords: Any) -> Any:
        if not self.is_enabled():
            return step(self, optimizer, *args, **keywords)
        number, loss_scale = tape.scaler(self, "GradScaler", self.get_scale), self.get_scale()
        before = len(tape.record.steps)
        result = step(self, optimizer, *args, **keywords)
        if len(tape.record.steps) == before:
            tape.step(_torch_optimizer(optimizer), None)
        elif _found_inf(self, optimizer):  # a fused optimizer is called in any case, and looks for itself
            tape.skip_last()
        for one in tape.record.steps[before:]:
            one.loss_scale, one.scaler = loss_scale, number
        return result

    scaler_class.__init__ = recorded_init
    scaler_class.scale = recorded_scale
    scaler_class.step = recorded_step


def _found_inf(scaler: Any, optimizer: Any) -> bool:
    found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
    return any(bool(value) for value in found.values())


def _torch_optimizer(optimizer: Any) -> Any:
    """The optimizer inside of wrappers such as LARC and FP16_Optimizer."""
    while not isinstance(optimizer, torch.optim.Optimizer):
        inner = [getattr(optimizer, name, None) for name in ("optim", "optimizer", "_optimizer", "inner_optimizer")]
        known = [one for one in inner if one is not None]
        if not known:
            return optimizer
        optimizer = known[0]
    return optimizer


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Iterable):
        for item in value:
            yield from _tensors(item)
