"""`amp.init`: O1's casts, put around the functions of torch for the whole process."""

from collections.abc import Callable, Iterable
from typing import Any

from ._amp_state import _amp_state
from .annotations import REGISTERED
from .casts import maybe_float, maybe_half
from .handle import AmpHandle, NoOpHandle
from .lists import functional_overrides, tensor_overrides, torch_overrides
from .rnn import patch_rnns
from .wrappers import cast_all, match_first, promote, promote_sequence, refuse_half, refuse_half_first


def init(
    enabled: bool = True,
    loss_scale: float | str = "dynamic",
    enable_caching: bool = True,
    verbose: bool = False,
    allow_banned: bool = False,
) -> AmpHandle | NoOpHandle:
    """Patch torch and return the handle that owns the patches.

    `loss_scale` is that of `handle.scale_loss`; wrapped optimizers have dynamic scales of their own.
    """
    if not enabled:
        idle = _amp_state.handle = NoOpHandle()
        return idle
    handle = _amp_state.handle = AmpHandle(loss_scale, enable_caching, verbose)
    _patch_registered(handle)
    _patch_casts(handle)
    _patch_promotions(handle)
    _patch_in_place(handle)
    patch_rnns(handle)
    _patch_banned(handle, allow_banned)
    return handle


def _patch_registered(handle: AmpHandle) -> None:
    # First, so that the built-in lists come around the user's choice, as in Apex.
    for owner, name, wrap in REGISTERED:
        _wrap(handle, owner, [name], wrap)
    REGISTERED.clear()


def _patch_casts(handle: AmpHandle) -> None:
    for lists in (functional_overrides, torch_overrides, tensor_overrides):
        _wrap(handle, lists.MODULE, lists.FP16_FUNCS, _to_half)
        _wrap(handle, lists.MODULE, lists.FP32_FUNCS, _to_float)


def _patch_promotions(handle: AmpHandle) -> None:
    for lists in (torch_overrides, tensor_overrides):
        _wrap(handle, lists.MODULE, lists.CASTS, promote)
        _wrap(handle, lists.MODULE, lists.SEQUENCE_CASTS, promote_sequence)


def _patch_in_place(handle: AmpHandle) -> None:
    torch_names = [name + "_" for name in torch_overrides.FP32_FUNCS]
    _wrap(handle, torch_overrides.MODULE, torch_names, _refuse_half)
    fp32_names = [name + "_" for name in tensor_overrides.FP32_FUNCS]
    _wrap(handle, tensor_overrides.MODULE, fp32_names, _refuse_half_first)
    other_names = [name + "_" for name in tensor_overrides.FP16_FUNCS + tensor_overrides.CASTS]
    _wrap(handle, tensor_overrides.MODULE, other_names, match_first)


def _patch_banned(handle: AmpHandle, allow_banned: bool) -> None:
    for name, message in functional_overrides.BANNED_FUNCS:

        def refuse(function: Any, handle: AmpHandle, message: str = message) -> Any:
            return refuse_half(function, message)

        _wrap(handle, functional_overrides.MODULE, [name], _to_float if allow_banned else refuse)


def _wrap(handle: AmpHandle, owner: Any, names: Iterable[str], wrap: Callable[..., Any]) -> None:
    """Wrap the functions that this torch has; the lists name some that come and go with its versions."""
    for name in names:
        if hasattr(owner, name):
            handle._patch(owner, name, wrap(getattr(owner, name), handle))


def _to_half(function: Any, handle: AmpHandle) -> Any:
    return cast_all(function, maybe_half, handle, caching=True)


def _to_float(function: Any, handle: AmpHandle) -> Any:
    return cast_all(function, maybe_float, handle, caching=False)


def _refuse_half(function: Any, handle: AmpHandle) -> Any:
    return refuse_half(function, f"Cannot call in-place function {function.__name__} with fp16 arguments.")


def _refuse_half_first(function: Any, handle: AmpHandle) -> Any:
    return refuse_half_first(function, f"Cannot call in-place method {function.__name__} on fp16 tensors.")
