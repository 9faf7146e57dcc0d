"""Tensors within arguments and results: lists, tuples, dicts and named tuples of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def tensors(tree: Any) -> list[torch.Tensor]:
    """All tensors, in order."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, (list, tuple)):
        return [one for part in tree for one in tensors(part)]
    if isinstance(tree, dict):
        return [one for part in tree.values() for one in tensors(part)]
    return []


def mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The same tree with each leaf changed."""
    if isinstance(tree, (list, tuple)) and not isinstance(tree, torch.Size):
        parts = [mapped(part, change) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    if isinstance(tree, dict):
        return {key: mapped(part, change) for key, part in tree.items()}
    return change(tree)


def on_tensors(tree: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """The same tree with each tensor changed."""
    return mapped(tree, lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf)


def cloned(tree: Any) -> Any:
    """The same tree with tensors of its own."""
    return on_tensors(tree, lambda tensor: tensor.detach().clone())


def is_number_like(tensor: torch.Tensor) -> bool:
    """Floating or complex: what a question gives another dtype."""
    return tensor.is_floating_point() or tensor.is_complex()
