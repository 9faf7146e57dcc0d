"""FusedAdam: AdamW by default, Adam with `adam_w_mode=False`."""

from typing import Any

import torch

from .fused import FusedOptimizer, adam_direction


class FusedAdam(FusedOptimizer):
    """Adam; `capturable` and `master_weights` are about CUDA graphs and have no effect.

    The arguments after them are those of 2018 and 2019 (then the only form was decoupled): FP16_Optimizer clips by
    `max_grad_norm`; the rest is about the kernel.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        set_grad_none: bool = True,
        capturable: bool = False,
        master_weights: bool = False,
        eps_inside_sqrt: bool = False,
        max_grad_norm: float = 0.0,
        use_mt: bool = False,
        amp_scale_adjustment: float = 1.0,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedAdam does not support the AMSGrad variant.")
        if eps_inside_sqrt:
            raise RuntimeError("The stand-in for Apex has no eps_inside_sqrt.")
        super().__init__(
            params,
            {
                "lr": lr,
                "bias_correction": bias_correction,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "max_grad_norm": max_grad_norm,
            },
        )
        self.adam_w_mode = adam_w_mode
        self.set_grad_none = set_grad_none

    def update(self, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> Any:
        """One step of Adam, weight decay on the gradient or beside it."""
        direction = adam_direction(param, grad, state, group, 1 - group["betas"][0], decoupled=self.adam_w_mode)
        return param - group["lr"] * direction
