"""The old names of types: `torch.cuda.FloatTensor`, `x.type()`, `torch.set_default_tensor_type`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

_NAMES = {
    f"{name}Tensor": dtype
    for name, dtype in {
        "BFloat16": torch.bfloat16,
        "Bool": torch.bool,
        "Byte": torch.uint8,
        "Char": torch.int8,
        "Double": torch.float64,
        "Float": torch.float32,
        "Half": torch.float16,
        "Int": torch.int32,
        "Long": torch.int64,
        "Short": torch.int16,
    }.items()
}


def install() -> None:
    """Replace torch.cuda's types and what takes or gives their names."""
    for name, dtype in _NAMES.items():
        setattr(torch.cuda, name, _CudaType(name, (), {"__module__": "torch.cuda", "dtype": dtype}))
    tensor: Any = torch.Tensor
    tensor.type = _tensor_type(tensor.type)
    torch.set_default_tensor_type = _default_type(torch.set_default_tensor_type)


class _CudaType(type):
    """One of torch.cuda's types: makes tensors of its dtype, which are its instances."""

    dtype: torch.dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device", None)
        return getattr(torch, cls.__name__)(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Tensor) and instance.dtype is cls.dtype


def _on_the_cpu(kind: Any) -> Any:
    """The CPU's type for one of CUDA's, named or given itself."""
    if isinstance(kind, _CudaType):
        return f"torch.{kind.__name__}"
    return kind.replace("torch.cuda.", "torch.") if isinstance(kind, str) else kind


def _tensor_type(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def cast(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
        if dtype is None:
            return real(self).replace("torch.", "torch.cuda.")
        return real(self, _on_the_cpu(dtype))

    return cast


def _default_type(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def chosen(kind: Any) -> None:
        real(_on_the_cpu(kind))

    return chosen
