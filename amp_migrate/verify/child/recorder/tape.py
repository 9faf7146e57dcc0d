"""What the hooks of the recorder write to, while the script runs."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import torch

from amp_migrate.verify.child.recorder.graph import constant_factor, reaches_half_weights
from amp_migrate.verify.record import Backward, Clip, Outcome, Record, Scaler, Step

# How many scaled losses are remembered: one whose backward comes later than so many others counts as not scaled.
_SCALED_LOSSES = 32
# How far back a loss is searched for the scaled loss that it was computed from (`scaler.scale(loss) / 2`).
_SEARCHED_NODES = 200
# In how many steps weights are looked at: walking the whole graph costs time.
_WATCHED_STEPS = 4
_PROGRESS_SECONDS = 0.2


class StopTraining(BaseException):
    """The script has done the steps that were asked for, or its time is over."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


@dataclasses.dataclass(frozen=True)
class _Factor:
    scale: float | torch.Tensor
    scaler: int
    dtype: torch.dtype  # of the loss before it was scaled


class Tape:
    """The record in the making. Numbers stay on their device until the end, so that recording never waits for a GPU."""

    def __init__(self, *, steps: int | None, progress: Path) -> None:
        self.record = Record()
        self.time_is_over = False
        self._limit = steps
        self._progress = progress
        self._told = 0.0
        self._numbers: list[tuple[Any, str, torch.Tensor]] = []
        self._optimizers: list[torch.optim.Optimizer] = []
        self._scalers: list[tuple[Any, Any]] = []  # with how to ask for its scale
        self._scaled: deque[tuple[Any, _Factor]] = deque(maxlen=_SCALED_LOSSES)
        self._last_time: float | None = None
        self._calls = (0, 0)
        self._calls_before = (0, 0)  # as they were before the last backward, which counts them
        self._quiet = 0
        self._after_steps: dict[int, Callable[[], None]] = {}

    # -- losses -----------------------------------------------------------------------------------------

    def scaled(self, loss: torch.Tensor, factor: float | torch.Tensor, scaler: int, dtype: torch.dtype) -> None:
        """Remember that `loss` was multiplied with a loss scale; `dtype` is what it had before."""
        self._scaled.append((loss.grad_fn if loss.grad_fn is not None else loss, _Factor(factor, scaler, dtype)))

    def backward(
        self,
        loss: torch.Tensor,
        gradient: torch.Tensor | None,
        *,
        autocast: bool,
        about_to: tuple[float, int] | None = None,
    ) -> None:
        """`about_to` is the loss scale that the caller will multiply `loss` with, and the number of its scaler."""
        if self._quiet:
            return
        if self.time_is_over:  # a script with a bare except goes on after the first StopTraining
            raise StopTraining("time limit")
        if self._limit is not None and len(self.record.steps) >= self._limit * max(1, len(self._optimizers)):
            raise StopTraining("stopped")
        with raw_math():
            value = _real(loss.detach())
            value = (value * _real(gradient)).sum() if gradient is not None else value.sum()
            earlier = self._factor(loss)
            dtype = str(earlier.dtype if earlier is not None else loss.dtype).removeprefix("torch.")
            one = Backward(0.0, None, None, autocast, dtype, len(self.record.steps))
            self._later(one, "loss", value if earlier is None else value / earlier.scale)
            factor = earlier if about_to is None else _Factor(*about_to, loss.dtype)
            if factor is not None:
                one.scaler = factor.scaler
                self._later(one, "loss_scale", torch.as_tensor(factor.scale))
            constant = constant_factor(loss, [node for node, _ in self._scaled])
            if constant is not None:
                self._later(one, "factor", constant)
            if not self.record.half_weights and len(self.record.steps) < _WATCHED_STEPS:
                self.record.half_weights = reaches_half_weights(loss)
        self._note_precision()
        self._calls_before = (self.record.training.calls, self.record.training.low)
        self.record.backwards.append(one)
        if self._last_time is None:
            self._last_time = time.perf_counter()

    def _note_precision(self) -> None:
        """What the last backward went through, when it is over."""
        training, before = self.record.training, self._calls_before
        if self.record.backwards:
            last = self.record.backwards[-1]
            last.calls, last.low = training.calls - before[0], training.low - before[1]

    def _factor(self, loss: torch.Tensor) -> _Factor | None:
        known = {id(node): factor for node, factor in self._scaled}
        seen: set[Any] = set()
        nodes: deque[Any] = deque([loss.grad_fn if loss.grad_fn is not None else loss])
        while nodes and len(seen) < _SEARCHED_NODES:
            node = nodes.popleft()
            if id(node) in known:
                return known[id(node)]
            for following, _ in getattr(node, "next_functions", ()):
                if following is not None and following not in seen:
                    seen.add(following)
                    nodes.append(following)
        return None

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Backwards in here belong to one that is recorded already."""
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    # -- optimizers -------------------------------------------------------------------------------------

    def step(self, optimizer: torch.optim.Optimizer, norm: torch.Tensor | None) -> Step:
        """A try of a step; `norm` None where it is skipped."""
        self._note_precision()
        now = time.perf_counter()
        seconds = now - self._last_time if self._last_time is not None else 0.0
        self._last_time = now
        one = Step(self._number(optimizer), norm is not None, None, None, None, seconds, *self._new_calls())
        if norm is not None:
            self._later(one, "grad_norm", norm)
        self.record.steps.append(one)
        self._tell(now)
        if len(self.record.steps) in self._after_steps:
            self._after_steps.pop(len(self.record.steps))()
        return one

    def after_steps(self, count: int, call: Callable[[], None]) -> None:
        """Call once, after so many tries of a step."""
        self._after_steps[count] = call

    def _new_calls(self) -> tuple[int, int]:
        """Calls of modules, and those in half precision, since this was asked before."""
        training, before = self.record.training, self._calls
        self._calls = (training.calls, training.low)
        return training.calls - before[0], training.low - before[1]

    def skip_last(self) -> None:
        """The last step was called, but did nothing."""
        one = self.record.steps[-1]
        one.applied = False
        self._numbers = [number for number in self._numbers if number[0] is not one]

    def _number(self, optimizer: torch.optim.Optimizer) -> int:
        for number, known in enumerate(self._optimizers):
            if known is optimizer:
                return number
        self._optimizers.append(optimizer)
        return len(self._optimizers) - 1

    def clip(self, name: str, norm: torch.Tensor | None, limit: float | torch.Tensor | None) -> None:
        one = Clip(name, None, None, len(self.record.steps))
        if norm is not None:
            self._later(one, "norm", norm)
        if limit is not None:
            self._later(one, "limit", torch.as_tensor(float(limit)))
        self.record.clips.append(one)

    # -- scalers ----------------------------------------------------------------------------------------

    def scaler(self, scaler: object, kind: Literal["GradScaler", "Apex"], scale: Callable[[], Any]) -> int:
        """The number of an enabled loss scaler; `scale` gives its scale now."""
        for number, (known, _) in enumerate(self._scalers):
            if known is scaler:
                return number
        self._scalers.append((scaler, scale))
        self.record.scalers.append(Scaler(kind, float(scale()), 0.0))
        return len(self._scalers) - 1

    # -- the end ----------------------------------------------------------------------------------------

    def finish(self) -> Record:
        """Fetch what is still on a device."""
        for one, field, number in self._numbers:
            setattr(one, field, float(number))
        self._numbers.clear()
        for scaler, (_, scale) in zip(self.record.scalers, self._scalers, strict=True):
            scaler.last_scale = float(scale())
        return self.record

    def trained(self) -> list[torch.Tensor]:
        """The parameters of all optimizers that were stepped, in order."""
        return [p for optimizer in self._optimizers for group in optimizer.param_groups for p in group["params"]]

    def _later(self, one: object, field: str, number: torch.Tensor) -> None:
        self._numbers.append((one, field, number.detach().clone()))

    def _tell(self, now: float) -> None:
        if now - self._told > _PROGRESS_SECONDS:
            self._told = now
            self._progress.write_text(str(len(self.record.steps)))


def _real(tensor: torch.Tensor) -> torch.Tensor:
    real = tensor.abs() if tensor.is_complex() else tensor
    return real if real.dtype == torch.float64 else real.float()


@contextlib.contextmanager
def raw_math() -> Iterator[None]:
    """Arithmetic of the recorder's own: no graph, no autocast."""
    devices = ("cpu", "cuda")
    with torch.no_grad(), contextlib.ExitStack() as stack:
        for device in devices:
            if torch.is_autocast_enabled(device):
                torch.set_autocast_enabled(device, False)
                stack.callback(torch.set_autocast_enabled, device, True)
        yield


def gradient_norm(optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """L2 norm over all gradients of an optimizer, in float32; 0 where there are none."""
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    values = [gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in gradients]
    if not values:
        return torch.zeros(())
    with raw_math():
        norms = [torch.linalg.vector_norm(_real(value.detach())) for value in values]
        total: torch.Tensor = torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms]))
        return total
