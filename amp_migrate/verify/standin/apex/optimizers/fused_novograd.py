"""FusedNovoGrad: momentum on gradients that are divided by a running norm, one number per parameter."""

from typing import Any

import torch

from .fused import FusedOptimizer, bias_corrections, moving_average


class FusedNovoGrad(FusedOptimizer):
    """NovoGrad; the running norm is kept per parameter (`exp_avg_sq`), where Apex keeps one list per group."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        reg_inside_moment: bool = False,
        grad_averaging: bool = True,
        norm_type: int = 2,
        init_zero: bool = False,
        set_grad_none: bool = True,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedNovoGrad does not support the AMSGrad variant.")
        if norm_type not in (0, 2):
            raise RuntimeError("FusedNovoGrad only supports the l2 norm (2) and the inf norm (0).")
        super().__init__(
            params,
            {
                "lr": lr,
                "bias_correction": bias_correction,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "grad_averaging": grad_averaging,
                "norm_type": norm_type,
                "init_zero": init_zero,
            },
        )
        self.reg_inside_moment = reg_inside_moment
        self.set_grad_none = set_grad_none

    def update(self, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> Any:
        """One step of NovoGrad, weight decay inside of the momentum or beside it."""
        beta1 = group["betas"][0]
        correction1, correction2 = bias_corrections(group)
        denominator = self._norm(grad, state, group) / correction2**0.5 + group["eps"]
        decay = group["weight_decay"] * param
        weight = 1 - beta1 if group["grad_averaging"] else 1.0
        if self.reg_inside_moment:
            mean = moving_average(state, "exp_avg", beta1, weight * (grad / denominator + decay))
            return param - group["lr"] * mean / correction1
        mean = moving_average(state, "exp_avg", beta1, weight * grad)
        return param - group["lr"] * (mean / correction1 / denominator + decay)

    def _norm(self, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> torch.Tensor:
        """Update and return the running norm; without `init_zero` it starts at the first gradient's norm."""
        beta2 = group["betas"][1]
        norm = grad.norm() if group["norm_type"] == 2 else grad.abs().max()
        old = state.get("exp_avg_sq", torch.zeros_like(norm) if group["init_zero"] else norm)
        if group["norm_type"] == 2:
            state["exp_avg_sq"] = (beta2 * old.square() + (1 - beta2) * norm.square()).sqrt()
        else:
            state["exp_avg_sq"] = beta2 * old + (1 - beta2) * norm
        return state["exp_avg_sq"]  # type: ignore[no-any-return]
