"""Watches a training script without editing it: losses, steps, clips, loss scales, precision."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import torch

from amp_migrate.verify.child.recorder.apex import record_apex
from amp_migrate.verify.child.recorder.grad_scaler import record_grad_scalers
from amp_migrate.verify.child.recorder.losses import record_backwards
from amp_migrate.verify.child.recorder.optimizers import Optimizer, record_clips, record_steps
from amp_migrate.verify.child.recorder.precision import SavedTensors, record_modules
from amp_migrate.verify.child.recorder.tape import StopTraining, Tape
from amp_migrate.verify.record import Record
from amp_migrate.verify.spec import Spec

# Weights and numbers of buffers that are kept of each run for comparison, evenly over all of them.
_SAMPLE = 4096


class Recorder:
    """Installed once, before the script runs."""

    def __init__(self, spec: Spec, autocast_device: str, after_first: Callable[[Optimizer], None] | None) -> None:
        self._device = spec.device
        self._tape = Tape(steps=spec.steps, progress=Path(spec.results) / "progress")
        self.record = self._tape.record
        record_backwards(self._tape, autocast_device)
        record_steps(self._tape, after_first)
        record_clips(self._tape)
        record_grad_scalers(self._tape, spec.conditions.highest_scale)
        record_apex(self._tape, spec.conditions.highest_scale)
        self._ran = record_modules(self.record, autocast_device)
        self._saved = SavedTensors(self._tape) if spec.conditions.saved_tensors else None

    def stop_in_time(self) -> None:
        """Raise StopTraining now, and at every backward to come."""
        self._tape.time_is_over = True
        raise StopTraining("time limit")

    def finish(self) -> Record:
        """The record, complete with the weights at the end."""
        if self._saved is not None:
            self._saved.stop()
        self._tape.finish()
        trained = self._tape.trained()
        buffers = [buffer.detach().cpu() for module in self._ran for buffer in module.buffers(recurse=False)]
        weights, running = _flat(trained), _flat(buffers)
        self.record.buffers, self.record.running = _digest(buffers), _sample(running)
        if trained:
            self.record.weights, self.record.digest = _sample(weights), _digest([weights])
            self.record.is_float64 = all(weight.element_size() >= torch.float64.itemsize for weight in trained)
        if self._device == "cuda":
            self.record.peak_bytes = torch.cuda.max_memory_allocated()
        return self.record


def _flat(tensors: list[torch.Tensor]) -> torch.Tensor:
    """All numbers of some tensors, in float32."""
    real = [torch.view_as_real(tensor) if tensor.is_complex() else tensor for tensor in tensors]
    return torch.cat([torch.empty(0), *(tensor.detach().float().flatten().cpu() for tensor in real)])


def _sample(flat: torch.Tensor) -> list[float]:
    numbers: list[float] = flat[:: max(1, flat.numel() // _SAMPLE)].tolist()
    return numbers


def _digest(tensors: list[torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.double().numpy().tobytes() if not tensor.is_complex() else tensor.numpy().tobytes())
    return digest.hexdigest()


__all__ = ["Recorder", "StopTraining"]
