"""`amp.scale_loss`, and the handle that says whether O1's casts are active."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch

from ..parallel.LARC import LARC
from ._amp_state import _amp_state, master_params
from .opt import OptimWrapper
from .process_optimizer import clear_master_grads
from .scaler import LossScaler


@contextmanager
def scale_loss(
    loss: Any,
    optimizers: Any,
    loss_id: int = 0,
    model: Any = None,
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> Iterator[Any]:
    """Yield the scaled loss; on exit unscale the gradients, adapt the scale, and skip a step that overflowed.

    `loss` may have any number of elements; what is yielded is fp32.  `model` is unused, as in Apex.

    Raises:
        RuntimeError: `amp.initialize` was not called.
    """
    if not hasattr(_amp_state, "opt_properties"):
        raise RuntimeError("amp.scale_loss needs amp.initialize before it.")
    properties = _amp_state.opt_properties
    if not properties.enabled:
        yield loss
        return
    if isinstance(optimizers, (torch.optim.Optimizer, LARC)):
        optimizers = [optimizers]
    scaler = _amp_state.loss_scalers[loss_id]

    if not properties.master_weights and not scaler.dynamic and scaler.loss_scale() == 1.0:
        yield loss.float()
    else:
        # Apex prepares the optimizers of a list only: after a tuple, earlier gradients are unscaled once more.
        if not delay_unscale and isinstance(optimizers, list):
            for optimizer in optimizers:
                if not optimizer._amp_stash.params_have_scaled_gradients:
                    optimizer._prepare_amp_backward()
        yield loss.float() * scaler.loss_scale()
        if delay_unscale:
            for optimizer in optimizers:
                optimizer._amp_stash.params_have_scaled_gradients = True
        else:
            _unscale(optimizers, scaler)
            if not delay_overflow_check and scaler.update_scale():
                for optimizer in optimizers:
                    _skip_next_step(optimizer)

    if properties.patch_torch_functions:
        _amp_state.handle._clear_cache()


def _unscale(optimizers: Any, scaler: Any) -> None:
    scaler.clear_overflow_state()
    for optimizer in optimizers:
        optimizer._post_amp_backward(scaler)
        optimizer._amp_stash.params_have_scaled_gradients = False


def _skip_next_step(optimizer: Any) -> None:
    """Replace the optimizer's `step` by one that does nothing, once."""
    if optimizer._amp_stash.already_patched:
        return
    step = optimizer.step

    def skip(optimizer: Any, closure: Any = None) -> None:
        if closure is not None:
            raise RuntimeError("amp does not support closures with optimizers.")
        clear_master_grads(optimizer)
        optimizer.step = step
        optimizer._amp_stash.already_patched = False

    optimizer.step = MethodType(skip, optimizer)
    optimizer._amp_stash.already_patched = True


@contextmanager
def disable_casts() -> Iterator[None]:
    """Let the functions that O1 patched act as torch wrote them."""
    with _amp_state.handle._disable_casts():
        yield


class AmpHandle:
    """What `amp.init` returns: the switch and the cache of the casts, and the list of what was patched."""

    def __init__(self, loss_scale: float | str = "dynamic", enable_caching: bool = True, verbose: bool = False) -> None:
        self.has_cache = enable_caching
        self.verbose = verbose
        self.cache: dict[torch.Tensor, torch.Tensor] = {}
        self._is_active = True
        self._default_scaler: LossScaler | None = LossScaler(loss_scale)
        self._patched: list[tuple[Any, str, Callable[..., Any]]] = []

    def is_active(self) -> bool:
        """Tell whether patched functions cast now."""
        return self._is_active

    @contextmanager
    def _disable_casts(self) -> Iterator[None]:
        # Not a try: as in Apex, an exception inside leaves the casts off.
        self._is_active = False
        yield
        self._is_active = True

    def wrap_optimizer(self, optimizer: Any, num_loss: int = 1) -> OptimWrapper:
        """Return the optimizer with a `scale_loss` of its own, for `num_loss` backwards between two steps."""
        self._default_scaler = None
        return OptimWrapper(optimizer, self, num_loss)

    @contextmanager
    def scale_loss(self, loss: Any, optimizer: Any) -> Iterator[Any]:
        """Yield the scaled loss; on exit unscale the gradients, and let a step that overflowed do nothing.

        As in Apex until April 2019; later versions refuse this form, for which scripts were written all the same.

        Raises:
            RuntimeError: the handle has wrapped an optimizer, which then scales its own losses.
        """
        if not self.is_active():
            yield loss
            return
        scaler = self._default_scaler
        if scaler is None:
            raise RuntimeError("After handle.wrap_optimizer, losses are scaled by optimizer.scale_loss.")
        yield loss * scaler.loss_scale()

        scaler.clear_overflow_state()
        grads = [param.grad for param in master_params(optimizer) if param.grad is not None]
        scaler.unscale(grads, grads)
        if scaler.update_scale():
            step = optimizer.step

            def skip() -> None:
                optimizer.step = step

            optimizer.step = skip
        self._clear_cache()

    def remove_cache(self, param: torch.Tensor) -> None:
        """Forget the cast of one parameter."""
        self.cache.pop(param, None)

    def _clear_cache(self) -> None:
        self.cache.clear()

    def _patch(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        """Put a function in the place of `owner.name` (or of `owner[name]`), until `_deactivate`."""
        self._patched.append((owner, name, _get(owner, name)))
        _set(owner, name, function)

    def _deactivate(self) -> None:
        """Undo every patch."""
        while self._patched:
            _set(*self._patched.pop())


class NoOpHandle:
    """What `amp.init(enabled=False)` returns."""

    has_cache = False
    verbose = False

    def is_active(self) -> bool:
        """Return False."""
        return False

    @contextmanager
    def _disable_casts(self) -> Iterator[None]:
        yield

    def wrap_optimizer(self, optimizer: Any, num_loss: int = 1) -> OptimWrapper:
        """Return the wrapper, which then adds nothing to the optimizer."""
        return OptimWrapper(optimizer, self, num_loss)

    @contextmanager
    def scale_loss(self, loss: Any, optimizer: Any) -> Iterator[Any]:
        """Yield the loss as it is."""
        yield loss

    def _clear_cache(self) -> None:
        pass

    def _deactivate(self) -> None:
        pass


def _get(owner: Any, name: str) -> Any:
    return owner[name] if isinstance(owner, dict) else getattr(owner, name)


def _set(owner: Any, name: str, function: Any) -> None:
    if isinstance(owner, dict):
        owner[name] = function
    else:
        setattr(owner, name, function)
