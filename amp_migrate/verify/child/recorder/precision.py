"""How much of the work is done in low precision.

Two measures: of the floating tensors kept for backward, the bytes in half precision (Tensor-level, sees functional
calls); and of the calls of linear, convolution and recurrent modules, those that give half precision (sees evaluation).
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

import torch

from amp_migrate.verify.child.recorder.tape import Tape
from amp_migrate.verify.record import Record

_LOW = (torch.float16, torch.bfloat16)
_WATCHED_STEPS = 4
_MODULES: tuple[type, ...] = (
    torch.nn.Linear,
    torch.nn.Bilinear,
    torch.nn.modules.conv._ConvNd,
    torch.nn.RNNBase,
    torch.nn.RNNCellBase,
)


def record_modules(record: Record, autocast_device: str) -> dict[torch.nn.Module, None]:
    """Count the calls of modules by the dtype of their output, from now on; look for autocast.

    Returns the modules with buffers, in the order of their first run; a script lets go of its own when it ends.
    """
    ran: dict[torch.nn.Module, None] = {}

    def look(module: torch.nn.Module, args: Any, output: Any) -> None:
        if module._buffers:
            ran[module] = None
        if isinstance(module, _MODULES):
            first = _first_tensor(output)
            low = first is not None and first.dtype in _LOW
            if not torch.is_grad_enabled():
                record.evaluation.count(low)
            elif first is not None and first.requires_grad:
                record.autocast = record.autocast or torch.is_autocast_enabled(autocast_device)
                # When a gradient comes back, not now: an evaluation with gradients is no training.
                first.register_hook(_counting(record, low))

    torch.nn.modules.module.register_module_forward_hook(look)
    return ran


def _counting(record: Record, low: bool) -> Callable[[torch.Tensor], None]:
    """Counts a call when its gradient comes back; not one whose gradient gets a graph, for a penalty: that is to be in
    float32.
    """
    of_penalty = False

    def came_back(_: torch.Tensor) -> None:
        nonlocal of_penalty
        of_penalty = of_penalty or torch.is_grad_enabled()  # create_graph=True
        if not of_penalty:
            record.training.count(low)

    return came_back


def _first_tensor(output: Any) -> Any:
    while isinstance(output, (tuple, list)) and output:
        output = output[0]
    return output if isinstance(output, torch.Tensor) else None


class SavedTensors:
    """Counts what autograd saves in the first steps: watching it costs time."""

    def __init__(self, tape: Tape) -> None:
        self._record = tape.record
        tape.after_steps(_WATCHED_STEPS, self.stop)
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)
        self._hooks.__enter__()
        self._thread = get_ident()  # the hooks are this thread's
        self._running = True

    def stop(self) -> None:
        if self._running and get_ident() == self._thread:
            self._running = False
            self._hooks.__exit__(None, None, None)

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point():
            size = tensor.numel() * tensor.element_size()
            self._record.saved_bytes += size
            if tensor.dtype in _LOW:
                self._record.saved_low_bytes += size
                self._record.low_dtype = str(tensor.dtype).removeprefix("torch.")
        # Not the tensor itself: an output that its own graph node saves would never be freed.
        return tensor.detach()
