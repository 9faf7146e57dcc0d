"""Backwards: the loss, whether it was scaled, and whether autocast was on."""

from __future__ import annotations

import functools
from typing import Any

import torch

from amp_migrate.verify.child.recorder.tape import Tape


def record_backwards(tape: Tape, device: str) -> None:
    """Every Tensor.backward calls torch.autograd.backward, so one patch sees them all."""
    backward = torch.autograd.backward

    @functools.wraps(backward)
    def recorded(tensors: Any, grad_tensors: Any = None, *args: Any, **keywords: Any) -> None:
        losses = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        given = [grad_tensors] if isinstance(grad_tensors, torch.Tensor) or grad_tensors is None else list(grad_tensors)
        given += [None] * (len(losses) - len(given))
        for loss, gradient in zip(losses, given, strict=False):
            tape.backward(loss, gradient, autocast=torch.is_autocast_enabled(device))
        with tape.quiet():
            backward(tensors, grad_tensors, *args, **keywords)

    torch.autograd.backward = recorded
