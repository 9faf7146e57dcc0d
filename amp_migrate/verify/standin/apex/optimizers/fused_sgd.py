"""FusedSGD: SGD with momentum."""

from typing import Any

import torch

from .fused import FusedOptimizer


class FusedSGD(FusedOptimizer):
    """SGD; `wd_after_momentum` adds the weight decay to the momentum's result instead of the gradient.

    `materialize_master_grads=False` saves memory in Apex; here the master gradients always exist.
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        wd_after_momentum: bool = False,
        materialize_master_grads: bool = True,
        set_grad_none: bool = False,
    ) -> None:
        if lr < 0.0 or momentum < 0.0 or weight_decay < 0.0:
            raise ValueError("lr, momentum and weight_decay must not be negative.")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening.")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
            },
        )
        self.wd_after_momentum = wd_after_momentum
        self.materialize_master_grads = materialize_master_grads
        self.set_grad_none = set_grad_none

    def update(self, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> Any:
        """One step of SGD; the first momentum is the gradient itself."""
        decay = group["weight_decay"] * param
        direction = grad if self.wd_after_momentum else grad + decay
        momentum = group["momentum"]
        if momentum != 0:
            if "momentum_buffer" in state:
                state["momentum_buffer"].mul_(momentum).add_(direction, alpha=1 - group["dampening"])
            else:
                state["momentum_buffer"] = direction.clone()
            buffer = state["momentum_buffer"]
            direction = direction + momentum * buffer if group["nesterov"] else buffer
        if self.wd_after_momentum:
            direction = direction + decay
        return param - group["lr"] * direction
