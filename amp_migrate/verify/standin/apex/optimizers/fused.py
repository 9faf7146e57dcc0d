"""What the fused optimizers share: the loop over the parameters, fp32 arithmetic, and the gradients set to None."""

from collections.abc import Iterator
from typing import Any

import torch


class FusedOptimizer(torch.optim.Optimizer):
    """Base of the fused optimizers; a subclass says what one parameter's update is.

    Apex's kernels compute in fp32 whatever the parameter's dtype is, and so does `update`.
    """

    set_grad_none: bool

    def begin(self) -> None:
        """Prepare what a step needs of all gradients together."""

    def update(self, param: torch.Tensor, grad: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> Any:
        """Return the new value of a parameter; `param` and `grad` are fp32."""
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Do one step and return what the closure returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.begin()
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for param, grad in with_gradients(group):
                param.copy_(self.update(param.float(), grad.float(), self.state[param], group))
        return loss

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        """Zero the gradients; unless told otherwise `set_grad_none` decides whether they become None."""
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)


def with_gradients(group: dict[str, Any]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the parameters of a group that have a gradient, with it; raises RuntimeError for a sparse one."""
    for param in group["params"]:
        if param.grad is not None:
            if param.grad.is_sparse:
                raise RuntimeError("Apex's fused optimizers do not support sparse gradients.")
            yield param, param.grad


def moving_average(state: dict[str, Any], name: str, beta: float, addend: torch.Tensor) -> torch.Tensor:
    """Update and return `state[name]`, an fp32 tensor that starts at zero: `beta * old + addend`."""
    if name not in state:
        state[name] = torch.zeros_like(addend)
    return state[name].mul_(beta).add_(addend)  # type: ignore[no-any-return]


def bias_corrections(group: dict[str, Any]) -> tuple[float, float]:
    """Return `1 - beta ** step` for both betas, or ones where bias_correction is off."""
    if not group["bias_correction"]:
        return 1.0, 1.0
    beta1, beta2 = group["betas"]
    return 1 - beta1 ** group["step"], 1 - beta2 ** group["step"]


def adam_direction(
    param: torch.Tensor,
    grad: torch.Tensor,
    state: dict[str, Any],
    group: dict[str, Any],
    share: float,
    *,
    decoupled: bool,
) -> Any:
    """Return Adam's update before the learning rate; `share` is what the gradient adds to the first average.

    Weight decay is added to the gradient, or `decoupled` to the update.
    """
    beta1, beta2 = group["betas"]
    correction1, correction2 = bias_corrections(group)
    decay = group["weight_decay"] * param
    if not decoupled:
        grad = grad + decay
    mean = moving_average(state, "exp_avg", beta1, share * grad)
    square = moving_average(state, "exp_avg_sq", beta2, (1 - beta2) * grad * grad)
    direction = (mean / correction1) / ((square / correction2).sqrt() + group["eps"])
    return direction + decay if decoupled else direction
