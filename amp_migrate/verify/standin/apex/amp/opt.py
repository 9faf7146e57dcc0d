"""The optimizer of the old handle interface: it scales its own losses."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._amp_state import master_params
from .scaler import LossScaler


class OptimWrapper:
    """An optimizer with `num_loss` dynamic loss scalers, used in turn by the backwards between two steps.

    Here the gradients are unscaled, as documented.  Apex's last version passes the parameters where the gradients
    belong, so its `scale_loss` cannot work there.
    """

    def __init__(self, optimizer: Any, amp_handle: Any, num_loss: int) -> None:
        self._optimizer = optimizer
        self._amp_handle = amp_handle
        self._num_loss = num_loss
        self._loss_idx = 0
        self._skip_next = [False] * num_loss
        self._loss_scaler = [LossScaler("dynamic") for _ in range(num_loss)]

    @contextmanager
    def scale_loss(self, loss: Any) -> Iterator[Any]:
        """Yield the loss scaled for its turn; on exit unscale its gradients and add the earlier ones.

        Raises:
            AssertionError: this is the `num_loss + 1`st loss since the last step.
        """
        if not self._amp_handle.is_active():
            yield loss
            return
        assert self._loss_idx < self._num_loss, "more losses than num_loss between two steps"
        params = list(master_params(self._optimizer))
        earlier: list[Any] = [None] * len(params)
        if self._loss_idx > 0:
            earlier = [None if param.grad is None else param.grad.detach().clone() for param in params]
            self._optimizer.zero_grad()
        scaler = self._loss_scaler[self._loss_idx]
        yield loss * scaler.loss_scale()

        scaler.clear_overflow_state()
        grads = [param.grad for param in params if param.grad is not None]
        scaler.unscale(grads, grads)
        self._skip_next[self._loss_idx] = scaler.update_scale()
        for param, grad in zip(params, earlier, strict=True):
            if grad is not None:
                param.grad = grad if param.grad is None else param.grad.add_(grad)
        self._loss_idx += 1

    def step(self, closure: Any = None) -> Any:
        """Step, unless one of the losses since the last step overflowed.

        Raises:
            NotImplementedError: a closure was passed.
        """
        if not self._amp_handle.is_active():
            return self._optimizer.step(closure=closure)
        self._loss_idx = 0
        for param in master_params(self._optimizer):
            self._amp_handle.remove_cache(param)
        if closure is not None:
            raise NotImplementedError("The amp optimizer wrapper takes no closure.")
        if any(self._skip_next):
            self._skip_next = [False] * self._num_loss
            return None
        return self._optimizer.step()

    def zero_grad(self) -> None:
        """Zero the optimizer's gradients; takes no argument, as in Apex."""
        self._optimizer.zero_grad()

    def __getattr__(self, name: str) -> Any:
        if name == "_optimizer":  # not set yet, while being unpickled
            raise AttributeError(name)
        return getattr(self._optimizer, name)

    def __repr__(self) -> str:
        return repr(self._optimizer)
