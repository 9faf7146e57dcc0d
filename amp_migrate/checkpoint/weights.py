"""Half weights of a model: cast to float32, and given the float32 values that Apex kept beside them."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch


class Casts:
    """float16 tensors to float32; tensors that share memory (tied weights, views) share it afterwards, too."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.Tensor] = {}

    def float32(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor in float32: a Parameter stays one."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._storages:
            self._storages[storage.data_ptr()] = torch.empty(0, dtype=tensor.dtype).set_(storage).float()
        whole = self._storages[storage.data_ptr()]
        cast = whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(cast, tensor.requires_grad)
        return cast.requires_grad_(tensor.requires_grad)


def is_dense(value: Any) -> bool:
    """A tensor with a memory of its own, as the weights that Apex casts are: not a sparse one."""
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def cast(state: dict[str, Any], casts: Casts) -> list[torch.Tensor]:
    """Cast the half tensors in a model's state dict, in place; returns the new ones in their order."""
    halves = [name for name, entry in state.items() if is_dense(entry) and entry.dtype is torch.float16]
    for name in halves:
        state[name] = casts.float32(state[name])
    return [state[name] for name in halves]


def weights_of(masters: list[list[torch.Tensor]], tensors: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """Which of a model's (cast) half tensors the masters belong to, group after group; None where that is not clear.

    An optimizer is given a model's parameters in the model's order, perhaps in several groups, and after each step
    Apex copies the masters to the model. So every tensor in turn belongs to the group whose next master has its shape
    and, rounded to half, its values. Buffers, frozen parameters and the second name of a tied weight belong to none.
    """
    waiting = [deque(group) for group in masters]
    found: list[list[torch.Tensor]] = [[] for _ in masters]
    seen = set()
    for tensor in tensors:
        identity = (tensor.data_ptr(), tensor.shape, tensor.stride())
        if identity in seen:
            continue
        seen.add(identity)
        fitting = [index for index, group in enumerate(waiting) if group and _rounds_to(group[0], tensor)]
        if len(fitting) > 1:
            return None
        for index in fitting:
            waiting[index].popleft()
            found[index].append(tensor)
    return None if any(waiting) else [tensor for group in found for tensor in group]


def take_values(weights: list[torch.Tensor], masters: list[list[torch.Tensor]]) -> None:
    """Give each weight the values of its master."""
    with torch.no_grad():
        for weight, master in zip(weights, (master for group in masters for master in group), strict=True):
            weight.copy_(master)


def look_rounded(state: dict[str, Any]) -> bool:
    """True where every matrix is in float32 with values of float16, as O2's state dicts are since 2019-08."""
    matrices = [entry for entry in state.values() if is_dense(entry) and entry.dim() > 1]
    return bool(matrices) and all(
        matrix.dtype is torch.float32 and torch.equal(matrix.half().float(), matrix) for matrix in matrices
    )


def _rounds_to(master: torch.Tensor, tensor: torch.Tensor) -> bool:
    return master.shape == tensor.shape and torch.equal(master.detach().half().float(), tensor.detach())
