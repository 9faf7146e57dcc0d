"""FusedAdagrad: Adagrad, with decoupled weight decay in `adagrad_w_mode`."""

from typing import Any

import torch

from .fused import FusedOptimizer, moving_average


class FusedAdagrad(FusedOptimizer):
    """Adagrad without a decay of the learning rate."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        set_grad_none: bool = True,
        adagrad_w_mode: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "eps": eps, "weight_decay": weight_decay})
        self.adagrad_w_mode = adagrad_w_mode
        self.set_grad_none = set_grad_none

    def update(self, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> Any:
        """One step of Adagrad, weight decay on the gradient or beside it."""
        decay = group["weight_decay"] * param
        if not self.adagrad_w_mode:
            grad = grad + decay
        total = moving_average(state, "sum", 1.0, grad * grad)
        direction = grad / (total.sqrt() + group["eps"])
        if self.adagrad_w_mode:
            direction = direction + decay
        return param - group["lr"] * direction
