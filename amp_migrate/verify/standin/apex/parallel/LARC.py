# ruff: noqa: N999 (the module name is Apex's)
"""LARC: an optimizer wrapper that adapts the learning rate of each parameter to the size of its gradient."""

from typing import Any

import torch


class LARC:
    """Layer-wise adaptive rate control around any optimizer; it is no torch Optimizer itself.

    The local rate is `trust_coefficient * |p| / (|grad| + weight_decay * |p| + eps)`; with `clip` it is bounded by
    the group's rate, without it multiplies that rate (LARS).
    """

    def __init__(self, optimizer: Any, trust_coefficient: float = 0.02, clip: bool = True, eps: float = 1e-8) -> None:
        self.optim = optimizer
        self.trust_coefficient = trust_coefficient
        self.clip = clip
        self.eps = eps

    @property
    def state(self) -> Any:
        """The wrapped optimizer's state."""
        return self.optim.state

    @property
    def param_groups(self) -> Any:
        """The wrapped optimizer's groups."""
        return self.optim.param_groups

    @param_groups.setter
    def param_groups(self, value: Any) -> None:
        self.optim.param_groups = value

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> Any:
        """Return the wrapped optimizer's state."""
        return self.optim.state_dict()

    def load_state_dict(self, state_dict: Any) -> None:
        """Restore the wrapped optimizer's state."""
        self.optim.load_state_dict(state_dict)

    def zero_grad(self) -> None:
        """Zero the gradients."""
        self.optim.zero_grad()

    def add_param_group(self, param_group: Any) -> None:
        """Add a group to the wrapped optimizer."""
        self.optim.add_param_group(param_group)

    def step(self) -> None:
        """Adapt the gradients, weight decay included, and let the optimizer step without weight decay."""
        weight_decays = [group.get("weight_decay", 0) for group in self.param_groups]
        with torch.no_grad():
            for group, weight_decay in zip(self.param_groups, weight_decays, strict=True):
                group["weight_decay"] = 0
                for param in group["params"]:
                    if param.grad is not None:
                        self._adapt(param, group["lr"], weight_decay)
        self.optim.step()
        for group, weight_decay in zip(self.param_groups, weight_decays, strict=True):
            group["weight_decay"] = weight_decay

    def _adapt(self, param: torch.Tensor, lr: float, weight_decay: float) -> None:
        assert param.grad is not None
        size, grad_size = torch.norm(param), torch.norm(param.grad)
        if size == 0 or grad_size == 0:
            return
        rate = self.trust_coefficient * size / (grad_size + size * weight_decay + self.eps)
        if self.clip:
            rate = torch.clamp(rate / lr, max=1)
        param.grad.add_(param, alpha=weight_decay).mul_(rate)
