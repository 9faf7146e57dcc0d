"""A run in float64 throughout, whatever precision the script asks for.

Two programs of the same mathematics differ in float32 by roundings. In float64 that shrinks by nine digits, and what is
no rounding stays as it is. So every tensor of floating point is a float64 that says of itself that it is float32:
comparisons of dtypes, and `dtype=x.dtype`, work as they do without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}
_NARROWER = {wide: narrow for narrow, wide in _WIDER.items()}
# Of methods that the redirect wraps, the wrapper has come here first.
_METHODS = {name: getattr(torch._C.TensorBase, name) for name in ("to", "type")} | {"float": torch._C.TensorBase.double}
_NAMES = {f"torch.{place}FloatTensor": f"torch.{place}DoubleTensor" for place in ("", "cuda.")}


def install() -> None:
    """For the rest of the process; call it before the script runs."""
    torch.set_default_dtype(torch.float64)
    for name in ("set_default_dtype", "set_default_tensor_type"):
        setattr(torch, name, _given_wide(getattr(torch, name)))
    mode: Any = _InDouble()
    mode.__enter__()


def _given_wide(function: Callable[[Any], None]) -> Callable[[Any], None]:
    return lambda kind: function(_wide(kind, tensors=False))


class _InDouble(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        func = _METHODS.get(name, func)
        if name == "type" and len(args) == 1 and not kwargs:
            return func(*args).replace("Double", "Float")
        wide = [_wide(arg, tensors=not name.endswith("_")) for arg in args]
        result = func(*wide, **{key: _wide(arg, tensors=key != "out") for key, arg in (kwargs or {}).items()})
        if isinstance(result, torch.dtype):
            asks = sys._getframe(1).f_globals.get("__name__", "")
            return result if asks.startswith("torch.") else _NARROWER.get(result, result)  # torch makes storages by it
        return _wide(result, tensors=True)


def _wide(value: Any, *, tensors: bool) -> Any:
    """A value with float64 in place of float32, in types, and in tensors as well."""
    if isinstance(value, torch.Tensor):
        return value.to(_WIDER[value.dtype]) if tensors and value.dtype in _WIDER else value
    if isinstance(value, torch.dtype):
        return _WIDER.get(value, value)
    if isinstance(value, (str, type)):
        name = value if isinstance(value, str) else f"{value.__module__}.{value.__name__}"
        return _NAMES.get(name, value)
    if type(value) in (list, tuple):
        return type(value)(_wide(one, tensors=tensors) for one in value)
    return value
