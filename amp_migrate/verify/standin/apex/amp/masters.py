"""Taking fp32 master weights out of an optimizer's fp16 parameters."""

from typing import Any, NamedTuple

import torch


class Split(NamedTuple):
    """The trainable parameters of one parameter group; `masters` goes with `fp16` one by one."""

    fp16: list[torch.Tensor]
    masters: list[torch.Tensor]
    fp32: list[torch.Tensor]


def split_group(params: list[torch.Tensor], state: Any) -> Split:
    """Replace the fp16 parameters in the list `params` by fp32 masters, and move their optimizer state over.

    Frozen parameters stay as they are and get no master.

    Raises:
        TypeError: a parameter is neither fp16 nor fp32.
    """
    split = Split([], [], [])
    for index, param in enumerate(params):
        if not param.requires_grad:
            continue
        if is_half(param):
            master = param.detach().clone().float().requires_grad_()
            params[index] = master
            if param in state:
                state[master] = state.pop(param)
            split.fp16.append(param)
            split.masters.append(master)
        else:
            split.fp32.append(param)
    return split


def is_half(param: torch.Tensor) -> bool:
    """Tell fp16 from fp32; raises TypeError for any other dtype."""
    if param.dtype not in (torch.float16, torch.float32):
        raise TypeError(f"The optimizer's parameters must be fp16 or fp32, received {param.type()}")
    return param.dtype == torch.float16
