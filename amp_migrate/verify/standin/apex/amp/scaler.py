"""The loss scaler: one factor for the loss, taken out of the gradients again, and adapted to overflow."""

from collections.abc import Iterable
from typing import Any

import torch

# Apex's constructor takes a scale_factor and then uses 2 all the same.
FACTOR = 2.0


class LossScaler:
    """A static (`loss_scale` is a number) or dynamic (`"dynamic"`) loss scale."""

    def __init__(
        self,
        loss_scale: float | str,
        init_scale: float = 2.0**16,
        scale_factor: float = 2.0,
        scale_window: int = 2000,
        min_loss_scale: float | None = None,
        max_loss_scale: float = 2.0**24,
    ) -> None:
        self.dynamic = loss_scale == "dynamic"
        self._loss_scale: Any = min(max_loss_scale, init_scale) if self.dynamic else loss_scale
        self._max_loss_scale = max_loss_scale
        self._min_loss_scale = min_loss_scale
        self._scale_seq_len = scale_window
        self._unskipped = 0
        self._has_overflow = False

    def loss_scale(self) -> Any:
        """Return the present factor."""
        return self._loss_scale

    def clear_overflow_state(self) -> None:
        """Forget an overflow, before the gradients of the next backward are looked at."""
        self._has_overflow = False

    def unscale(self, grads: Iterable[torch.Tensor], masters: Iterable[torch.Tensor]) -> None:
        """Write each gradient divided by the loss scale into its master gradient (which may be the same tensor).

        A dynamic scaler stops at the first inf or NaN: that step is skipped anyhow.
        """
        for grad, master in zip(grads, masters, strict=True):
            if self._overflows(grad):
                return
            if master is not grad:
                master.copy_(grad)
            master.mul_(1.0 / self.loss_scale())

    def unscale_with_stashed(
        self, grads: Iterable[torch.Tensor], stashed: Iterable[torch.Tensor], masters: Iterable[torch.Tensor]
    ) -> None:
        """As `unscale`, with the earlier (already unscaled) gradient added; only the new gradient is checked."""
        for grad, earlier, master in zip(grads, stashed, masters, strict=True):
            if self._overflows(grad):
                return
            master.data = grad.detach().to(master.dtype) * (1.0 / self.loss_scale()) + earlier.detach()

    def update_scale(self) -> bool:
        """Count one backward, adapt the scale, and return True where the step has to be skipped."""
        should_skip = self.dynamic and self._has_overflow
        if should_skip:
            # A floor of None or 0 is no floor.
            self._loss_scale = max(self._min_loss_scale or 0.0, self.loss_scale() / FACTOR)
            self._unskipped = 0
        else:
            self._unskipped += 1
        if self.dynamic and self._unskipped == self._scale_seq_len:
            self._loss_scale = min(self._max_loss_scale, self.loss_scale() * FACTOR)
            self._unskipped = 0
        return should_skip

    def _overflows(self, grad: torch.Tensor) -> bool:
        """Remember and return whether the gradient holds an inf or NaN; a static scale never asks."""
        if self.dynamic and not self._has_overflow:
            self._has_overflow = not bool(torch.isfinite(grad).all())
        return self._has_overflow
