"""The user's own additions to the cast lists: decorators, and functions registered before `initialize`."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from . import wrappers
from ._amp_state import _amp_state
from .casts import Cast, maybe_float, maybe_half

# (owner, name, how to wrap it); `init` empties this.
REGISTERED: list[tuple[Any, str, Callable[..., Any]]] = []


def half_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function to get fp16 arguments while O1's casts are active."""
    return _while_active(function, _cast_to(maybe_half))


def float_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function to get fp32 arguments while O1's casts are active."""
    return _while_active(function, _cast_to(maybe_float))


def promote_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function to get fp32 arguments where fp16 and fp32 meet, while O1's casts are active."""
    return _while_active(function, wrappers.promote)


def register_half_function(module: Any, name: str) -> None:
    """Let `module.name` get fp16 arguments; raises ValueError if there is no such function."""
    _register(module, name, _cast_to(maybe_half))


def register_float_function(module: Any, name: str) -> None:
    """Let `module.name` get fp32 arguments; raises ValueError if there is no such function."""
    _register(module, name, _cast_to(maybe_float))


def register_promote_function(module: Any, name: str) -> None:
    """Let `module.name` promote fp16 and fp32; raises ValueError if there is no such function."""
    _register(module, name, wrappers.promote)


def _cast_to(cast: Cast) -> Callable[..., Any]:
    return partial(_cast_all, cast=cast)


def _cast_all(function: Any, handle: Any, cast: Cast) -> Any:
    return wrappers.cast_all(function, cast, handle, caching=cast is maybe_half)


def _register(module: Any, name: str, wrap: Callable[..., Any]) -> None:
    if not hasattr(module, name):
        raise ValueError(f"No function named {name} in module {module}.")
    REGISTERED.append((module, name, wrap))


def _while_active(function: Callable[..., Any], wrap: Callable[..., Any]) -> Callable[..., Any]:
    """Decide at the call: decorators run at import, long before there is a handle."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        handle = getattr(_amp_state, "handle", None)
        if handle is None or not handle.is_active():
            return function(*args, **kwargs)
        return wrap(function, handle)(*args, **kwargs)

    return wrapper
