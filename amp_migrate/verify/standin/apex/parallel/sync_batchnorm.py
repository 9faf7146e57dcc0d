"""Batch norm whose statistics cover the batches of all processes."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .distributed import world_size


class SyncBatchNorm(nn.SyncBatchNorm):
    """torch's SyncBatchNorm with Apex's additions: `channel_last` input, a summand `z`, a fused ReLU.

    `channel_last` means tensors of shape (batch, ..., channels), not a memory format.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        channel_last: bool = False,
        fuse_relu: bool = False,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, process_group)
        self.channel_last = channel_last
        self.fuse_relu = fuse_relu

    def forward(self, input: torch.Tensor, z: torch.Tensor | None = None) -> torch.Tensor:
        """Normalise `input`, add `z`, and apply the ReLU if `fuse_relu`."""
        channel_last = self.channel_last and input.dim() > 2
        result = self._normalise(input.movedim(-1, 1) if channel_last else input)
        if channel_last:
            result = result.movedim(1, -1)
        if z is not None:
            result = result + z
        return torch.relu(result) if self.fuse_relu else result

    def _normalise(self, input: torch.Tensor) -> torch.Tensor:
        # torch's version insists on a GPU once there are process groups, and one process has nothing to exchange.
        return super().forward(input) if world_size() > 1 else _BatchNorm.forward(self, input)


def convert_syncbn_model(module: Any, process_group: Any = None, channel_last: bool = False) -> Any:
    """Return the module with every batch norm in it replaced; parameters and statistics are kept."""
    if isinstance(module, _BatchNorm):
        return _converted(module, process_group, channel_last)
    for name, child in module.named_children():
        module.add_module(name, convert_syncbn_model(child, process_group, channel_last))
    return module


def create_syncbn_process_group(group_size: int) -> Any:
    """Split the processes into groups of `group_size` and return this one's; 0 stands for all and returns None.

    Raises:
        AssertionError: the number of processes is no multiple of `group_size`.
    """
    if group_size == 0:
        return None
    assert world_size() % group_size == 0, "group_size must divide the number of processes"
    # Every process takes part in making every group.
    groups = [dist.new_group(range(first, first + group_size)) for first in range(0, world_size(), group_size)]
    return groups[dist.get_rank() // group_size]


def _converted(module: Any, process_group: Any, channel_last: bool) -> SyncBatchNorm:
    converted = SyncBatchNorm(
        module.num_features,
        module.eps,
        module.momentum,
        module.affine,
        module.track_running_stats,
        process_group,
        channel_last,
    )
    converted.running_mean = module.running_mean
    converted.running_var = module.running_var
    converted.num_batches_tracked = module.num_batches_tracked
    if module.affine:
        converted.weight.data = module.weight.detach().clone()
        converted.bias.data = module.bias.detach().clone()
    return converted
