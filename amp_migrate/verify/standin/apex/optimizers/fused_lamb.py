"""FusedLAMB: Adam whose rate follows the ratio of weight and update sizes, after a global clip of the gradients."""

from typing import Any

import torch

from .fused import FusedOptimizer, adam_direction, with_gradients


class FusedLAMB(FusedOptimizer):
    """LAMB; `use_nvlamb` applies the ratio to parameters without weight decay too."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float = 1.0,
        use_nvlamb: bool = False,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedLAMB does not support the AMSGrad variant.")
        super().__init__(
            params,
            {
                "lr": lr,
                "bias_correction": bias_correction,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "grad_averaging": grad_averaging,
                "max_grad_norm": max_grad_norm,
            },
        )
        self.adam_w_mode = adam_w_mode
        self.set_grad_none = set_grad_none
        self.use_nvlamb = use_nvlamb
        self._clip = 1.0

    def begin(self) -> None:
        """Find the divisor that brings the norm of all gradients down to `max_grad_norm`."""
        norms = [grad.float().norm() for group in self.param_groups for _, grad in with_gradients(group)]
        limit = self.defaults["max_grad_norm"]
        self._clip = max(1.0, float(torch.stack(norms).norm()) / limit) if norms else 1.0

    def update(self, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> Any:
        """One step of LAMB, weight decay on the gradient or beside it."""
        share = 1 - group["betas"][0] if group["grad_averaging"] else 1.0
        direction = adam_direction(param, grad / self._clip, state, group, share, decoupled=self.adam_w_mode)
        return param - group["lr"] * self._ratio(param, direction, group) * direction

    def _ratio(self, param: torch.Tensor, direction: torch.Tensor, group: dict[str, Any]) -> Any:
        size, step_size = param.norm(), direction.norm()
        adapt = (self.use_nvlamb or group["weight_decay"] != 0) and size != 0 and step_size != 0
        return size / step_size if adapt else 1.0
