"""The casts of O1: tensors among a function's arguments to fp16 or fp32, and the cache of cast parameters."""

from collections.abc import Callable, Iterable
from typing import Any

import torch

Cast = Callable[[Any], Any]


def maybe_half(value: Any) -> Any:
    """Cast a floating CUDA tensor, or each in a list or tuple, to fp16; CPU tensors stay as they are."""
    return _cast(value, torch.float16)


def maybe_float(value: Any) -> Any:
    """Cast a floating CUDA tensor, or each in a list or tuple, to fp32; CPU tensors stay as they are."""
    return _cast(value, torch.float32)


def cast_arguments(cast: Cast, args: Iterable[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Apply a cast to the arguments that are floating tensors, or lists or tuples of nothing but these."""
    return (
        [cast(value) if _is_floating(value) else value for value in args],
        {name: cast(value) if _is_floating(value) else value for name, value in kwargs.items()},
    )


def cast_parameters(
    cast: Cast, args: Iterable[Any], kwargs: dict[str, Any], cache: dict[torch.Tensor, torch.Tensor]
) -> tuple[list[Any], dict[str, Any]]:
    """Apply a cast to the arguments that are fp32 parameters, each once until the cache is cleared."""
    return (
        [_cached(cast, value, cache) if _is_fp32_parameter(value) else value for value in args],
        {name: _cached(cast, value, cache) if _is_fp32_parameter(value) else value for name, value in kwargs.items()},
    )


def floating_dtypes(values: Iterable[Any]) -> set[torch.dtype]:
    """Return the dtypes of the floating tensors among the values, and in lists or tuples of nothing but these."""
    dtypes: set[torch.dtype] = set()
    for value in values:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            dtypes.add(value.dtype)
        elif isinstance(value, (list, tuple)) and _is_floating(value):
            dtypes |= floating_dtypes(value)
    return dtypes


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(item, dtype) for item in value])
    return value.to(dtype) if value.is_cuda else value


def _is_floating(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_floating(item) for item in value)
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _is_fp32_parameter(value: Any) -> bool:
    return isinstance(value, torch.nn.Parameter) and value.dtype == torch.float32


def _cached(cast: Cast, parameter: torch.Tensor, cache: dict[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    held = cache.get(parameter)
    # A cast made under no_grad has no way back to its parameter: with gradients on it is made anew.
    if held is None or (torch.is_grad_enabled() and held.requires_grad != parameter.requires_grad):
        held = cache[parameter] = cast(parameter)
    return held
