"""Optimizer steps and clips."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

from amp_migrate.verify.child.recorder.tape import Tape, gradient_norm

Optimizer = torch.optim.Optimizer


def record_steps(tape: Tape, after_first: Callable[[Optimizer], None] | None) -> None:
    """Through the hooks that every torch optimizer calls around its step, subclasses and wrappers included.

    `after_first` is called with each optimizer once, after its first step.
    """
    inside: list[Optimizer] = []  # a subclass whose step calls its parent's runs the hooks twice
    norms: dict[int, torch.Tensor] = {}
    moved: set[int] = set()

    def before(optimizer: Optimizer, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        inside.append(optimizer)
        if inside.count(optimizer) > 1:
            return None
        norms[id(optimizer)] = _applied_norm(optimizer)
        return _with_closure_watched(args, keywords, lambda: norms.update({id(optimizer): _applied_norm(optimizer)}))

    def after(optimizer: Optimizer, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        if optimizer in inside:
            inside.remove(optimizer)
        if optimizer not in inside:
            norm = norms.pop(id(optimizer))
            if not _does_nothing(optimizer):
                tape.step(optimizer, norm)
            if after_first is not None and id(optimizer) not in moved:
                moved.add(id(optimizer))
                after_first(optimizer)

    torch_optimizer.register_optimizer_step_pre_hook(before)
    torch_optimizer.register_optimizer_step_post_hook(after)


def _does_nothing(optimizer: Optimizer) -> bool:
    """True where none of the parameters has a gradient, which torch's own optimizers pass over: no step at all, and
    what is migrated may leave it out.
    """
    gradients = (p.grad for group in optimizer.param_groups for p in group["params"])
    return type(optimizer).__module__.startswith("torch.optim") and all(gradient is None for gradient in gradients)


def _applied_norm(optimizer: Optimizer) -> torch.Tensor:
    """Fused optimizers get scaled gradients, with the scale beside them, and unscale in their own kernel."""
    scale = getattr(optimizer, "grad_scale", None)
    norm = gradient_norm(optimizer)
    return norm if scale is None else norm / scale.to(norm.device).float()


def _with_closure_watched(args: tuple[Any, ...], keywords: dict[str, Any], look: Callable[[], None]) -> Any:
    """The arguments of a step, where gradients are made by a closure inside of it; None where there is no closure."""

    def watched(closure: Callable[[], Any]) -> Callable[[], Any]:
        @functools.wraps(closure)
        def call() -> Any:
            result = closure()
            look()
            return result

        return call

    if len(args) > 1 and callable(args[1]):
        return (args[0], watched(args[1]), *args[2:]), keywords
    if callable(keywords.get("closure")):
        return args, {**keywords, "closure": watched(keywords["closure"])}
    return None


def record_clips(tape: Tape) -> None:
    """clip_grad_norm_ and clip_grad_value_, under all names that torch has for them."""
    from torch.nn.utils import clip_grad

    for name in ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_"):
        recorded = _recorded_clip(tape, name, getattr(clip_grad, name))
        for module in (clip_grad, torch.nn.utils):
            if hasattr(module, name):
                setattr(module, name, recorded)


def _recorded_clip(tape: Tape, name: str, clip: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(clip)
    def recorded(*args: Any, **keywords: Any) -> Any:
        norm = clip(*args, **keywords)
        limit = args[1] if len(args) > 1 else keywords.get("max_norm", keywords.get("clip_value"))
        tape.clip(name.rstrip("_"), norm if isinstance(norm, torch.Tensor) else None, limit)
        return norm

    return recorded
