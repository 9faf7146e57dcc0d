"""FP16_Optimizer: an optimizer wrapper that keeps fp32 masters of fp16 parameters and scales the loss."""

from itertools import chain
from typing import Any

import torch

from ..amp.masters import split_group
from ..amp.scaler import LossScaler
from .param_lists import clip_grad_norm, master_params_to_model_params


class FP16_Optimizer:  # noqa: N801 (Apex's name)
    """Wraps an optimizer over fp16 and fp32 parameters; its groups hold fp32 masters from then on.

    `dynamic_loss_scale` wins over `static_loss_scale`; `dynamic_loss_args` go to amp's LossScaler.
    `verbose` is accepted, and nothing is printed.
    """

    def __init__(
        self,
        init_optimizer: Any,
        static_loss_scale: float = 1.0,
        dynamic_loss_scale: bool = False,
        dynamic_loss_args: dict[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        self.optimizer = init_optimizer
        splits = [split_group(group["params"], init_optimizer.state) for group in init_optimizer.param_groups]
        self.fp16_groups = [split.fp16 for split in splits]
        self.fp32_from_fp16_groups = [split.masters for split in splits]
        self.fp32_from_fp32_groups = [split.fp32 for split in splits]
        self.all_fp16_params = list(chain.from_iterable(self.fp16_groups))
        self.all_fp32_from_fp16_params = list(chain.from_iterable(self.fp32_from_fp16_groups))
        self.all_fp32_from_fp32_params = list(chain.from_iterable(self.fp32_from_fp32_groups))
        # Loading a state casts it to the dtype of its parameter, which is fp32 now.
        init_optimizer.load_state_dict(init_optimizer.state_dict())

        self.dynamic_loss_scale = bool(dynamic_loss_scale)
        self.loss_scaler = (
            LossScaler("dynamic", **(dynamic_loss_args or {})) if dynamic_loss_scale else LossScaler(static_loss_scale)
        )
        self.overflow = False
        self.first_closure_call_this_step = True

    def backward(self, loss: torch.Tensor, update_master_grads: bool = True, retain_graph: bool = False) -> None:
        """Run backward from the scaled fp32 loss, and bring the gradients to the masters."""
        (loss.float() * self.loss_scaler.loss_scale()).backward(retain_graph=retain_graph)
        if update_master_grads:
            self.update_master_grads()

    def update_master_grads(self) -> None:
        """Unscale the gradients into the masters' gradients and adapt the scale.

        The gradients of fp32 parameters are unscaled in place: what a second call finds there was unscaled before.
        """
        self.loss_scaler.clear_overflow_state()
        grads, master_grads = [], []
        for param, master in zip(self.all_fp16_params, self.all_fp32_from_fp16_params, strict=True):
            if param.grad is not None:
                if master.grad is None:
                    master.grad = torch.empty_like(master)
                grads.append(param.grad)
                master_grads.append(master.grad)
        self.loss_scaler.unscale(grads, master_grads)
        in_place = [param.grad for param in self.all_fp32_from_fp32_params if param.grad is not None]
        self.loss_scaler.unscale(in_place, in_place)
        self.overflow = self.loss_scaler.update_scale()

    def step(self, closure: Any = None) -> Any:
        """Step on the masters and copy them to the model; after an overflow do nothing and return None.

        A closure calls this object's `zero_grad` and `backward`; it is run again until nothing overflows.
        """
        if self.overflow:
            return None
        result = self.optimizer.step() if closure is None else self._step_with_closure(closure)
        self._master_params_to_model_params()
        return result

    def zero_grad(self, set_grads_to_None: bool = False) -> None:  # noqa: N803 (Apex's name)
        """Zero the gradients of the masters and of the model."""
        masters = [param for group in self.optimizer.param_groups for param in group["params"]]
        for param in masters + self.all_fp16_params:
            if set_grads_to_None:
                param.grad = None
            elif param.grad is not None:
                param.grad.detach_().zero_()

    def clip_master_grads(self, max_norm: float, norm_type: float = 2) -> Any:
        """Clip the masters' gradients; return their total norm, or -1 after an overflow."""
        if self.overflow:
            return -1
        masters = [param for group in self.optimizer.param_groups for param in group["params"]]
        return clip_grad_norm(masters, max_norm, norm_type)

    def inspect_master_grad_data(self) -> list[list[torch.Tensor | None]] | None:
        """Return the masters' gradients by group, or None after an overflow."""
        if self.overflow:
            return None
        return [
            [None if param.grad is None else param.grad.data for param in group["params"]]
            for group in self.optimizer.param_groups
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return the scaler (the object itself), the wrapped optimizer's state and the masters."""
        return {
            "loss_scaler": self.loss_scaler,
            "dynamic_loss_scale": self.dynamic_loss_scale,
            "overflow": self.overflow,
            "first_closure_call_this_step": self.first_closure_call_this_step,
            "optimizer_state_dict": self.optimizer.state_dict(),
            "fp32_from_fp16": self.fp32_from_fp16_groups,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; the model's own parameters are loaded apart."""
        self.loss_scaler = state_dict["loss_scaler"]
        self.dynamic_loss_scale = state_dict["dynamic_loss_scale"]
        self.overflow = state_dict["overflow"]
        self.first_closure_call_this_step = state_dict["first_closure_call_this_step"]
        self.optimizer.load_state_dict(state_dict["optimizer_state_dict"])
        for masters, saved in zip(self.fp32_from_fp16_groups, state_dict["fp32_from_fp16"], strict=False):
            master_params_to_model_params(masters, saved)

    @property
    def loss_scale(self) -> Any:
        """The present factor; may be set."""
        return self.loss_scaler.loss_scale()

    @loss_scale.setter
    def loss_scale(self, value: float) -> None:
        self.loss_scaler._loss_scale = value

    @property
    def state(self) -> Any:
        """The wrapped optimizer's state."""
        return self.optimizer.state

    @state.setter
    def state(self, value: Any) -> None:
        self.optimizer.state = value

    @property
    def param_groups(self) -> Any:
        """The wrapped optimizer's groups, which hold the masters."""
        return self.optimizer.param_groups

    @param_groups.setter
    def param_groups(self, value: Any) -> None:
        self.optimizer.param_groups = value

    def _master_params_to_model_params(self) -> None:
        master_params_to_model_params(self.all_fp16_params, self.all_fp32_from_fp16_params)

    def _step_with_closure(self, closure: Any) -> Any:
        def until_no_overflow() -> Any:
            if not self.first_closure_call_this_step:
                self._master_params_to_model_params()
            self.first_closure_call_this_step = False
            loss = closure()
            while self.overflow:
                loss = closure()
            return loss

        result = self.optimizer.step(until_no_overflow)
        self.first_closure_call_this_step = True
        return result
