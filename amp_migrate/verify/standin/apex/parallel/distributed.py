"""Apex's DistributedDataParallel and Reducer, on torch.distributed; with one process they change nothing."""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn


def world_size() -> int:
    """Return the number of processes, 1 where there is no process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


class DistributedDataParallel(nn.Module):
    """Broadcasts the parameters (never the buffers) once, and averages gradients at the end of each backward.

    The arguments that only steer how communication overlaps with the backward have no effect.
    """

    def __init__(
        self,
        module: nn.Module,
        message_size: int = 10000000,
        delay_allreduce: bool = False,
        shared_param: Any = None,
        allreduce_trigger_params: Any = None,
        retain_allreduce_buffers: bool = False,
        allreduce_always_fp32: bool = False,
        num_allreduce_streams: int = 1,
        allreduce_communicators: Any = None,
        gradient_average: bool = True,
        gradient_predivide_factor: float = 1.0,
        gradient_average_split_factor: Any = None,
        prof: bool = False,
    ) -> None:
        super().__init__()
        if shared_param is not None:
            raise ValueError("shared_param is no longer supported: use delay_allreduce.")
        self.module = module
        self.allreduce_always_fp32 = allreduce_always_fp32
        self.gradient_average = gradient_average
        self.gradient_predivide_factor = gradient_predivide_factor
        self._disable_allreduce = False
        self._reduction_queued = False
        if world_size() > 1:
            _broadcast(module)
            for param in module.parameters():
                if param.requires_grad:
                    hook: Any = param.register_post_accumulate_grad_hook
                    hook(self._queue_reduction)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the module."""
        return self.module(*inputs, **kwargs)

    def enable_allreduce(self) -> None:
        """Average gradients from now on."""
        self._disable_allreduce = False

    def disable_allreduce(self) -> None:
        """Let gradients accumulate in this process."""
        self._disable_allreduce = True

    def _queue_reduction(self, _: torch.Tensor) -> None:
        if not self._disable_allreduce and not self._reduction_queued:
            self._reduction_queued = True
            # The engine calls back when the whole backward is done: then every process has the same gradients.
            torch.autograd.Variable._execution_engine.queue_callback(self._reduce)

    def _reduce(self) -> None:
        self._reduction_queued = False
        for param in self.module.parameters():
            if param.grad is not None:
                self._reduce_gradient(param.grad)

    def _reduce_gradient(self, grad: torch.Tensor) -> None:
        total = grad.float() if self.allreduce_always_fp32 else grad
        total.mul_(1.0 / self.gradient_predivide_factor)
        dist.all_reduce(total)
        if self.gradient_average:
            total.mul_(self.gradient_predivide_factor / world_size())
        grad.copy_(total)


class Reducer:
    """Averages the gradients of a module, or a nest of tensors, when told to."""

    def __init__(self, module_or_grads_list: Any) -> None:
        self.module = module_or_grads_list if isinstance(module_or_grads_list, nn.Module) else None
        self.grads = [] if self.module is not None else list(_tensors(module_or_grads_list))
        if self.module is not None and world_size() > 1:
            _broadcast(self.module)

    def reduce(self) -> None:
        """Average over the processes, in place."""
        grads = self.grads
        if self.module is not None:
            grads = [param.grad for param in self.module.parameters() if param.grad is not None]
        if world_size() > 1:
            for grad in grads:
                dist.all_reduce(grad)
                grad.div_(world_size())


def _broadcast(module: nn.Module) -> None:
    for param in module.parameters():
        dist.broadcast(param.detach(), 0)


def _tensors(nest: Any) -> Iterable[torch.Tensor]:
    if isinstance(nest, torch.Tensor):
        yield nest
    elif isinstance(nest, Iterable):
        for item in nest:
            yield from _tensors(item)
