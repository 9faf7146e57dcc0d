"""The public operations of torch: functions, methods and properties of tensors, layers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import get_ignored_functions, get_overridable_functions

NAMESPACES = {
    "torch": torch,
    "torch.nn.functional": torch.nn.functional,
    "torch.linalg": torch.linalg,
    "torch.fft": torch.fft,
    "torch.special": torch.special,
}
# Settings, context managers, and what serves the inside of torch.
_NO_OPERATION = re.compile(
    "set_|get_|is_autocast|autocast|_|use_determ|are_determ|compile|export|load|save|manual_seed|seed|initial_seed"
    "|typename|sym_|is_deterministic|is_warn|is_vulkan|prepare_multi|init_num|clear_autocast|vmap|while_loop|fork|wait"
    "|parse_|import_ir|merge_type|unify|cpp|read_vitals|vitals|thread_safe|is_grad_enabled|is_inference|is_anomaly"
    "|is_multithreading|has_torch_function|handle_torch|boolean_dispatch|assert_int|reproduce|lru_cache|classproperty"
    "|eval$|inference_mode|no_grad|enable_grad|obj_|assert_never|overload|signature|deprecate"
)
_OPERATORS = frozenset(
    f"__{name}__"
    for name in (
        "add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv floordiv rfloordiv mod rmod pow rpow ipow "
        "matmul rmatmul and or xor rand ror rxor iand ior ixor lshift rshift invert neg pos abs eq ne lt le gt ge "
        "getitem float int bool len contains"
    ).split()
)
# They make no value, or hand the tensor to somebody else.
_NO_METHOD = frozenset(
    "backward register_hook register_post_accumulate_grad_hook storage untyped_storage module_load reinforce "
    "share_memory_ volatile as_subclass to_dlpack dtype rename rename_ refine_names align_to align_as names".split()
)
_FUNCTIONS = ("builtin_function_or_method", "function", "OpOverloadPacket")


@dataclass(frozen=True)
class Public:
    """One name, and what is called by it: for a layer its class, for a property a function of the tensor."""

    name: str
    kind: str
    call: Callable[..., Any]

    @property
    def bare(self) -> str:
        return self.name.rpartition(".")[2]


def public() -> dict[str, Public]:
    """All of them by their names."""
    return {one.name: one for one in (*_functions(), *_methods(), *_layers())}


def _functions() -> Iterator[Public]:
    known = {id(function) for functions in get_overridable_functions().values() for function in functions}
    known |= {id(function) for function in get_ignored_functions() if callable(function)}
    for space, module in NAMESPACES.items():
        for name in sorted(dir(module)):
            function = getattr(module, name)
            if _NO_OPERATION.match(name) or type(function).__name__ not in _FUNCTIONS:
                continue
            is_builtin = type(function).__name__ == "builtin_function_or_method"
            is_torchs = is_builtin or (function.__module__ or "").startswith(("torch", "_VariableFunctions"))
            if id(function) in known or (module is not torch and is_torchs and _is_listed(module, name, is_builtin)):
                yield Public(f"{space}.{name}", "function", function)


def _is_listed(module: Any, name: str, is_builtin: bool) -> bool:
    return is_builtin or name in getattr(module, "__all__", ())


def _methods() -> Iterator[Public]:
    for name in sorted(dir(torch.Tensor)):
        if name in _NO_METHOD or (name.startswith("_") and name not in _OPERATORS):
            continue
        static = inspect.getattr_static(torch.Tensor, name)
        if isinstance(static, property) or type(static).__name__ == "getset_descriptor":
            yield Public(f"torch.Tensor.{name}", "property", _reader(name))
        elif callable(getattr(torch.Tensor, name)):
            yield Public(f"torch.Tensor.{name}", "method", getattr(torch.Tensor, name))


def _reader(name: str) -> Callable[..., Any]:
    return lambda tensor: getattr(tensor, name)


def _layers() -> Iterator[Public]:
    for name in sorted(dir(nn)):
        made = getattr(nn, name)
        if inspect.isclass(made) and issubclass(made, nn.Module) and not name.startswith("_"):
            yield Public(f"torch.nn.{name}", "layer", made)
