"""What amp adds to an optimizer: its part of `scale_loss`, and under O2 the master weights.

The additions are methods on the instance, with Apex's names, and their data is in `optimizer._amp_stash`.
The stash sorts the parameters by dtype.  That is done at the first use, not in `initialize`: a script may load
a checkpoint or move the model in between.
"""

from types import MethodType, SimpleNamespace
from typing import Any

import torch

from ..fp16_utils.param_lists import master_params_to_model_params
from .masters import is_half, split_group


def process_optimizer(optimizer: Any, master_weights: bool) -> None:
    """Prepare an optimizer for `scale_loss`.

    Raises:
        RuntimeError: the optimizer went through `initialize` before.
    """
    if hasattr(optimizer, "_amp_stash"):
        raise RuntimeError("An optimizer can go through amp.initialize only once.")
    optimizer._amp_stash = SimpleNamespace(
        lazy_init_called=False, already_patched=False, params_have_scaled_gradients=False
    )
    optimizer._amp_lazy_init = MethodType(_lazy_init, optimizer)
    if master_weights:
        optimizer._lazy_init_maybe_master_weights = MethodType(_sort_with_masters, optimizer)
        optimizer._prepare_amp_backward = MethodType(_prepare_with_masters, optimizer)
        optimizer._post_amp_backward = MethodType(_post_with_masters, optimizer)
        optimizer._master_params_to_model_params = MethodType(_copy_masters, optimizer)
        optimizer.step = MethodType(_step_with_masters(optimizer.step), optimizer)
        optimizer.zero_grad = MethodType(_zero_grad_with_masters, optimizer)
    else:
        optimizer._lazy_init_maybe_master_weights = MethodType(_sort_by_dtype, optimizer)
        optimizer._prepare_amp_backward = MethodType(_prepare_in_place, optimizer)
        optimizer._post_amp_backward = MethodType(_post_in_place, optimizer)
    add_to_stash = _add_group_with_masters if master_weights else _add_group_by_dtype
    optimizer.add_param_group = MethodType(_add_param_group(optimizer.add_param_group, add_to_stash), optimizer)


def clear_master_grads(optimizer: Any) -> None:
    """Drop the masters' gradients, which `model.zero_grad()` would not reach."""
    for master in getattr(optimizer._amp_stash, "all_fp32_from_fp16_params", []):
        master.grad = None


def _lazy_init(optimizer: Any) -> None:
    if not optimizer._amp_stash.lazy_init_called:
        optimizer._lazy_init_maybe_master_weights()
        optimizer._amp_stash.lazy_init_called = True


# Without master weights: gradients are unscaled where they are.


def _sort_by_dtype(optimizer: Any) -> None:
    stash = optimizer._amp_stash
    stash.all_fp16_params, stash.all_fp16_grad_stash = [], []
    stash.all_fp32_params, stash.all_fp32_grad_stash = [], []
    for group in optimizer.param_groups:
        _add_group_by_dtype(optimizer, group)


def _add_group_by_dtype(optimizer: Any, group: Any) -> None:
    stash = optimizer._amp_stash
    for param in group["params"]:
        params = stash.all_fp16_params if is_half(param) else stash.all_fp32_params
        grads = stash.all_fp16_grad_stash if is_half(param) else stash.all_fp32_grad_stash
        params.append(param)
        grads.append(None)


def _prepare_in_place(optimizer: Any) -> None:
    stash = optimizer._amp_stash
    optimizer._amp_lazy_init()
    _put_aside(stash.all_fp16_params, stash.all_fp16_grad_stash)
    _put_aside(stash.all_fp32_params, stash.all_fp32_grad_stash)


def _post_in_place(optimizer: Any, scaler: Any) -> None:
    stash = optimizer._amp_stash
    optimizer._amp_lazy_init()
    _unscale_in_place(scaler, stash.all_fp16_params, stash.all_fp16_grad_stash)
    _unscale_in_place(scaler, stash.all_fp32_params, stash.all_fp32_grad_stash)


def _put_aside(params: list[torch.Tensor], stashed: list[torch.Tensor | None]) -> None:
    """Keep the gradients of earlier backwards apart: they are already unscaled."""
    for index, param in enumerate(params):
        stashed[index] = param.grad
        param.grad = None


def _unscale_in_place(scaler: Any, params: list[torch.Tensor], stashed: list[torch.Tensor | None]) -> None:
    """Unscale the new gradients, add what was put aside, and empty the stash."""
    # Apex leaves early at a static scale of 1, and so forgets what was put aside; so do we.
    if scaler.dynamic or scaler.loss_scale() != 1.0:
        new, new_with_earlier, earlier = [], [], []
        for param, kept in zip(params, stashed, strict=True):
            if param.grad is None:
                param.grad = kept
            elif kept is None:
                new.append(param.grad)
            else:
                new_with_earlier.append(param.grad)
                earlier.append(kept)
        scaler.unscale(new, new)
        scaler.unscale_with_stashed(new_with_earlier, earlier, new_with_earlier)
    stashed[:] = [None] * len(stashed)


# With master weights: fp16 gradients are unscaled into the masters' gradients.


def _sort_with_masters(optimizer: Any) -> None:
    stash = optimizer._amp_stash
    stash.fp16_groups, stash.fp32_from_fp16_groups, stash.fp32_from_fp32_groups = [], [], []
    stash.all_fp16_params, stash.all_fp32_from_fp16_params = [], []
    stash.all_fp32_from_fp32_params, stash.all_fp32_from_fp32_grad_stash = [], []
    for group in optimizer.param_groups:
        _add_group_with_masters(optimizer, group)
    for param in stash.all_fp32_from_fp32_params:
        param.grad = None
    # Loading a state casts it to the dtype of its parameter, which is fp32 now.
    optimizer.load_state_dict(optimizer.state_dict())


def _add_group_with_masters(optimizer: Any, group: Any) -> None:
    stash = optimizer._amp_stash
    split = split_group(group["params"], optimizer.state)
    stash.fp16_groups.append(split.fp16)
    stash.fp32_from_fp16_groups.append(split.masters)
    stash.fp32_from_fp32_groups.append(split.fp32)
    stash.all_fp16_params += split.fp16
    stash.all_fp32_from_fp16_params += split.masters
    stash.all_fp32_from_fp32_params += split.fp32
    stash.all_fp32_from_fp32_grad_stash += [None] * len(split.fp32)


def _prepare_with_masters(optimizer: Any) -> None:
    stash = optimizer._amp_stash
    optimizer._amp_lazy_init()
    for param in stash.all_fp16_params:
        param.grad = None  # what it held is in the master's gradient already
    _put_aside(stash.all_fp32_from_fp32_params, stash.all_fp32_from_fp32_grad_stash)


def _post_with_masters(optimizer: Any, scaler: Any) -> None:
    stash = optimizer._amp_stash
    optimizer._amp_lazy_init()
    new, new_masters, added, added_masters = [], [], [], []
    for param, master in zip(stash.all_fp16_params, stash.all_fp32_from_fp16_params, strict=True):
        if param.grad is None:
            continue
        if master.grad is None:
            master.grad = torch.empty_like(master)
            new.append(param.grad)
            new_masters.append(master.grad)
        else:
            added.append(param.grad)
            added_masters.append(master.grad)
    scaler.unscale(new, new_masters)
    scaler.unscale_with_stashed(added, added_masters, added_masters)
    _unscale_in_place(scaler, stash.all_fp32_from_fp32_params, stash.all_fp32_from_fp32_grad_stash)


def _copy_masters(optimizer: Any) -> None:
    stash = optimizer._amp_stash
    master_params_to_model_params(stash.all_fp16_params, stash.all_fp32_from_fp16_params)


def _step_with_masters(old_step: Any) -> Any:
    def step(optimizer: Any, closure: Any = None) -> Any:
        if closure is not None:
            raise RuntimeError("amp does not support closures with master weights.")
        result = old_step()
        optimizer._master_params_to_model_params()
        clear_master_grads(optimizer)
        return result

    return step


def _zero_grad_with_masters(optimizer: Any) -> None:
    stash = optimizer._amp_stash
    optimizer._amp_lazy_init()
    for param in stash.all_fp16_params + stash.all_fp32_from_fp32_params:
        if param.grad is not None:
            param.grad.detach_().zero_()
    clear_master_grads(optimizer)


def _add_param_group(old_add: Any, add_to_stash: Any) -> Any:
    def add_param_group(optimizer: Any, group: Any) -> None:
        optimizer._amp_lazy_init()
        params = group["params"]
        group["params"] = [params] if isinstance(params, torch.Tensor) else list(params)
        add_to_stash(optimizer, group)
        old_add(group)

    return add_param_group
