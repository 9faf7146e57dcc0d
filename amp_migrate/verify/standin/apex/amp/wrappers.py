"""The kinds of wrapper that O1 puts around functions, each by the rule for the dtype of its arguments."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from .casts import Cast, cast_arguments, cast_parameters, floating_dtypes, maybe_float, maybe_half

Function = Callable[..., Any]

HALF_AND_FLOAT = {torch.float16, torch.float32}


def cast_all(function: Function, cast: Cast, handle: Any, caching: bool) -> Function:
    """Cast every floating argument; with `caching`, fp32 parameters come from the handle's cache."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not handle.is_active():
            return function(*args, **kwargs)
        values: Any = args
        if caching and handle.has_cache:
            values, kwargs = cast_parameters(cast, values, kwargs, handle.cache)
        values, kwargs = cast_arguments(cast, values, kwargs)
        return function(*values, **kwargs)

    return wrapper


def promote(function: Function, handle: Any) -> Function:
    """Cast to fp32 where fp16 and fp32 meet.

    The wrapper raises NotImplementedError for any other mix of floating dtypes.
    """

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not handle.is_active():
            return function(*args, **kwargs)
        dtypes = floating_dtypes([*args, *kwargs.values()])
        if len(dtypes) <= 1:
            return function(*args, **kwargs)
        if dtypes != HALF_AND_FLOAT:
            raise NotImplementedError(f"Do not know how to promote these types: {dtypes}")
        values, kwargs = cast_arguments(maybe_float, args, kwargs)
        return function(*values, **kwargs)

    return wrapper


def promote_sequence(function: Function, handle: Any) -> Function:
    """Cast the tensors of the first argument, a sequence, to fp32 where fp16 and fp32 meet."""

    @wraps(function)
    def wrapper(sequence: Any, *args: Any, **kwargs: Any) -> Any:
        if handle.is_active() and {item.dtype for item in sequence} == HALF_AND_FLOAT:
            sequence = cast_arguments(maybe_float, sequence, {})[0]
        return function(sequence, *args, **kwargs)

    return wrapper


def match_first(function: Function, handle: Any) -> Function:
    """Cast the other arguments of an in-place method to the dtype of the tensor that it changes."""
    casts = {torch.float16: maybe_half, torch.float32: maybe_float}

    @wraps(function)
    def wrapper(first: Any, *args: Any, **kwargs: Any) -> Any:
        if not handle.is_active() or first.dtype not in casts:
            return function(first, *args, **kwargs)
        values, kwargs = cast_arguments(casts[first.dtype], args, kwargs)
        return function(first, *values, **kwargs)

    return wrapper


def refuse_half(function: Function, message: str) -> Function:
    """Raise NotImplementedError where any argument is fp16, whether casts are active or not."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if torch.float16 in floating_dtypes([*args, *kwargs.values()]):
            raise NotImplementedError(message)
        return function(*args, **kwargs)

    return wrapper


def refuse_half_first(function: Function, message: str) -> Function:
    """Raise NotImplementedError where the changed tensor is fp16; cast the other arguments to fp32."""

    @wraps(function)
    def wrapper(first: Any, *args: Any, **kwargs: Any) -> Any:
        if first.dtype == torch.float16:
            raise NotImplementedError(message)
        values, kwargs = cast_arguments(maybe_float, args, kwargs)
        return function(first, *values, **kwargs)

    return wrapper
