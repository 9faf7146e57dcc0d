"""The loss scalers of hand-made loops.  FP16_Optimizer uses amp's scaler instead."""

from collections.abc import Iterable
from typing import Any

import torch


class LossScaler:
    """A fixed loss scale, which never sees an overflow."""

    def __init__(self, scale: float = 1) -> None:
        self.cur_scale = scale

    @property
    def loss_scale(self) -> float:
        """The present factor."""
        return self.cur_scale

    def has_overflow(self, params: Iterable[torch.Tensor]) -> bool:
        """Return False."""
        return False

    def update_scale(self, overflow: bool) -> None:
        """Keep the scale."""

    def scale_gradient(self, module: Any, grad_in: Iterable[torch.Tensor], grad_out: Any) -> tuple[torch.Tensor, ...]:
        """Scale gradients, in the form of a module's backward hook."""
        return tuple(self.loss_scale * grad for grad in grad_in)

    def backward(self, loss: Any, retain_graph: bool = False) -> None:
        """Run backward from the scaled loss."""
        (loss * self.loss_scale).backward(retain_graph=retain_graph)


class DynamicLossScaler(LossScaler):
    """A loss scale that shrinks on overflow (not below 1) and grows after `scale_window` iterations without one."""

    def __init__(self, init_scale: float = 2**32, scale_factor: float = 2.0, scale_window: int = 1000) -> None:
        super().__init__(init_scale)
        self.cur_iter = 0
        self.last_overflow_iter = -1
        self.scale_factor = scale_factor
        self.scale_window = scale_window

    def has_overflow(self, params: Iterable[torch.Tensor]) -> bool:
        """Tell whether any gradient holds an inf or NaN."""
        return any(param.grad is not None and not bool(torch.isfinite(param.grad).all()) for param in params)

    def update_scale(self, overflow: bool) -> None:
        """Count one iteration and adapt the scale."""
        if overflow:
            self.cur_scale = max(self.cur_scale / self.scale_factor, 1)
            self.last_overflow_iter = self.cur_iter
        elif (self.cur_iter - self.last_overflow_iter) % self.scale_window == 0:
            self.cur_scale *= self.scale_factor
        self.cur_iter += 1
