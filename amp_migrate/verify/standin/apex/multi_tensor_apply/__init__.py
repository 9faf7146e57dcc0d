"""`apex.multi_tensor_apply` without its compiled kernels: scripts see `available` False and take their own path."""

from collections.abc import Callable
from typing import Any


class MultiTensorApply:
    """Would apply a compiled kernel to lists of tensors."""

    available = False

    def __init__(self, chunk_size: int) -> None:
        self.chunk_size = chunk_size

    def __call__(self, op: Callable[..., Any], noop_flag_buffer: Any, tensor_lists: Any, *args: Any) -> Any:
        """Raise RuntimeError: there are no kernels."""
        raise RuntimeError("MultiTensorApply needs Apex's compiled kernels.")


multi_tensor_applier = MultiTensorApply(2048 * 32)
