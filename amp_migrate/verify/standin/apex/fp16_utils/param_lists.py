"""The building blocks of a hand-made master weight loop: parameter lists, and copies in both directions."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import _utils, nn

_flatten: Any = _utils._flatten_dense_tensors
_unflatten: Any = _utils._unflatten_dense_tensors

clip_grad_norm = nn.utils.clip_grad_norm_


def prep_param_lists(model: nn.Module, flat_master: bool = False) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the trainable parameters and their fp32 masters.

    With `flat_master` there is one master: a vector of all parameters, which then must be of one dtype.
    """
    model_params: list[torch.Tensor] = [param for param in model.parameters() if param.requires_grad]
    if flat_master:
        flat = nn.Parameter(_flatten([param.data for param in model_params]).float())
        flat.grad = torch.zeros_like(flat)
        return model_params, [flat]
    return model_params, [param.detach().clone().float().requires_grad_() for param in model_params]


def model_grads_to_master_grads(
    model_params: list[torch.Tensor], master_params: list[torch.Tensor], flat_master: bool = False
) -> None:
    """Copy the model's gradients to the masters; a missing gradient is missing there too."""
    if flat_master:
        master_params[0].grad.copy_(_flatten([param.grad for param in model_params]))  # type: ignore[union-attr]
        return
    for param, master in zip(model_params, master_params, strict=True):
        if param.grad is None:
            master.grad = None
        elif master.grad is None:
            master.grad = param.grad.detach().to(master.dtype, copy=True)
        else:
            master.grad.copy_(param.grad)


def master_params_to_model_params(
    model_params: Iterable[torch.Tensor], master_params: Iterable[torch.Tensor], flat_master: bool = False
) -> None:
    """Copy the masters to the model's parameters."""
    model_params, master_params = list(model_params), list(master_params)
    masters = _unflatten(master_params[0].data, model_params) if flat_master else master_params
    for param, master in zip(model_params, masters, strict=True):
        param.data.copy_(master.data)


def to_python_float(tensor: Any) -> Any:
    """Return the number in a tensor of one element."""
    return tensor.item() if hasattr(tensor, "item") else tensor[0]
