"""CUDA's autocast policy in the kernels of AutocastCPU.

The operators that both devices run in the lower precision keep torch's own kernels, which also cache the casts of
weights within a region. Everything else that CUDA or the CPU treats in some way is given the kernel of CUDA's policy,
without such a cache: it would serve only cells called step by step.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from amp_migrate.models import policy

Kernel = Callable[..., Any]
_KEY = "AutocastCPU"
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
_LOWER = (torch.float16, torch.bfloat16)
# CUDA runs them in half, the CPU has no such kernel.
_WITHOUT_KERNEL = ("avg_pool3d",)
# The kernels live as long as their library does.
_library: Any = torch.library.Library("aten", "IMPL", _KEY)  # type: ignore[no-untyped-call]


def install() -> None:
    """Register the kernels that turn the CPU's policy into CUDA's."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators", UserWarning)
        for name, kernel in _kernels():
            _library.impl(name, kernel)


def _kernels() -> Iterator[tuple[str, Kernel]]:
    known = set(torch._C._dispatch_get_all_op_names())
    treated = {name.removeprefix("aten::") for name in torch._C._dispatch_get_registrations_for_dispatch_key(_KEY)}
    wanted = {name: make(_operator(name)) for name, make in _makers().items() if f"aten::{name}" in known}
    for name, kernel in wanted.items():
        if not (name in treated and name in policy.LOWER_PRECISION):
            yield name, kernel
    for name in treated - wanted.keys():
        yield name, torch.library.fallthrough_kernel


def _makers() -> dict[str, Callable[[Any], Kernel]]:
    """For each operator of the policy, what makes its kernel."""
    makers: dict[str, Callable[[Any], Kernel]] = dict.fromkeys(policy.LOWER_PRECISION, _lower_precision)
    makers |= dict.fromkeys(policy.RECURRENT, _lower_precision)
    makers |= dict.fromkeys(policy.FP32, _fp32)
    makers |= dict.fromkeys(policy.FP32_BY_DTYPE, _fp32_by_dtype)
    makers |= dict.fromkeys(policy.WIDEST, _widest)
    makers |= {name: functools.partial(_fp32_by_overload, other) for name, other in policy.FP32_BY_OVERLOAD.items()}
    makers |= dict.fromkeys(_WITHOUT_KERNEL, _rounded)
    makers |= {name: functools.partial(_banned, message) for name, message in policy.BANNED.items()}
    return makers


def _operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _below_autocast() -> Any:
    """A context in which operators go straight to autograd."""
    return torch._C._ExcludeDispatchKeyGuard(_AUTOCAST)


def _lower_precision(operator: Any) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _below_autocast():
            return _call_in(torch.get_autocast_dtype("cpu"), operator, args, kwargs)

    return kernel


def _fp32(operator: Any) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _below_autocast():
            return _call_in(torch.float32, operator, args, kwargs)

    return kernel


def _rounded(operator: Any) -> Kernel:
    """In float32, and back to the dtype of the input."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _below_autocast():
            return _call_in(torch.float32, operator, args, kwargs).to(args[0].dtype)

    return kernel


def _fp32_by_dtype(operator: Any) -> Kernel:
    """A dtype that is asked for stays: `cross_entropy` asks for that of its logits. For half, CUDA computes in float32
    and rounds the result; the CPU's log_softmax loses all below 0.0005.
    """
    arguments = operator._schema.arguments
    place = next(index for index, argument in enumerate(arguments) if argument.name == "dtype")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        asked = args[place] if len(args) > place else kwargs.pop("dtype", None)
        before, after = args[:place], args[place + 1 :]
        if _is_cast(args[0]) and asked is None:
            asked = torch.float32
        with _below_autocast():
            if _is_cast(args[0]) and asked in _LOWER:
                single = operator(args[0].to(asked).float(), *before[1:], *after, dtype=torch.float32, **kwargs)
                return single.to(asked)
            return operator(*before, *after, dtype=asked, **kwargs)

    return kernel


def _fp32_by_overload(name: str, operator: Any) -> Kernel:
    with_dtype = _operator(name)
    takes = [argument.name for argument in operator._schema.arguments]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        values = {argument.name: argument.default_value for argument in operator._schema.arguments}
        values |= dict(zip(takes, args, strict=False)) | kwargs
        first = args[0]
        with _below_autocast():
            return with_dtype(*values.values(), dtype=torch.float32 if _is_cast(first) else first.dtype)

    return kernel


def _widest(operator: Any) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        dtype = _widest_dtype(_tensors((args, tuple(kwargs.values()))))
        with _below_autocast():
            return _call_in(dtype, operator, args, kwargs)

    return kernel


def _banned(message: str, operator: Any) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(message)

    return kernel


def _widest_dtype(tensors: Iterator[torch.Tensor]) -> torch.dtype:
    """The region's dtype, or float32 where a tensor has it; a third dtype is an error, as it is on CUDA."""
    widest = torch.get_autocast_dtype("cpu")
    for tensor in tensors:
        if torch.float32 in (widest, tensor.dtype):
            widest = torch.float32
        elif tensor.dtype is not widest:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return widest


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    elif _is_cast(value):
        yield value


def _is_cast(value: Any) -> bool:
    """Whether autocast touches the value: floating tensors, but not double ones."""
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype is not torch.float64


def _call_in(dtype: torch.dtype, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return operator(*_cast(args, dtype), **{name: _cast(value, dtype) for name, value in kwargs.items()})


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_cast(item, dtype) for item in value)
    return value.to(dtype) if _is_cast(value) else value
