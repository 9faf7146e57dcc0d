"""What is in a checkpoint, and where: the states of Apex and of native AMP, by the keys that they have."""

from __future__ import annotations

import dataclasses
import re
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Any

import torch

from amp_migrate.checkpoint.read import PickledScaler

_GRAD_SCALER_KEYS = {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"}
# The names of FP16_Optimizer's master weights: in apex.fp16_utils, in apex.contrib.optimizers.
MASTERS = ("fp32_from_fp16", "fp32_groups")
# And in apex.optimizers until 2019: all weights of a group in one vector.
FLAT_MASTERS = "fp32_groups_flat"


@dataclasses.dataclass(frozen=True, eq=False)
class Place:
    """A container or a scaler in a checkpoint; `path` is how Python code reaches it."""

    value: Any
    path: str
    key: Any = None
    above: Place | None = None

    def dict_above(self) -> Place | None:
        """The innermost dict that holds it, directly or in a list."""
        place = self.above
        while place is not None and not isinstance(place.value, dict):
            place = place.above
        return place


def places(root: Any) -> Iterator[Place]:
    """The root and everything in it, outer before inner; a container that is there twice comes once.

    A scaler comes at each of its places: it is replaced there, not changed.
    """
    seen = set()
    stack = [Place(root, "checkpoint")]
    while stack:
        place = stack.pop()
        if id(place.value) in seen and not isinstance(place.value, PickledScaler):
            continue
        seen.add(id(place.value))
        yield place
        inner = [
            Place(value, f"{place.path}[{key!r}]", key, place)
            for key, value in _items(place.value)
            if isinstance(value, (dict, list, tuple, PickledScaler))
        ]
        stack.extend(reversed(inner))


def _items(container: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(container, dict):
        yield from container.items()
    elif isinstance(container, (list, tuple)):
        yield from enumerate(container)


def is_amp_state(value: Any) -> bool:
    """`amp.state_dict()`: {"loss_scaler0": {"loss_scale": ..., "unskipped": ...}, ...}."""
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(key, str) and re.fullmatch(r"loss_scaler\d+", key) for key in value)
        and all(isinstance(entry, dict) and set(entry) == {"loss_scale", "unskipped"} for entry in value.values())
    )


def is_grad_scaler_state(value: Any) -> bool:
    """`GradScaler.state_dict()`, where it was enabled."""
    return isinstance(value, dict) and set(value) == _GRAD_SCALER_KEYS


def is_fp16_optimizer_state(value: Any) -> bool:
    """`FP16_Optimizer.state_dict()`, whichever of Apex's three."""
    return (
        isinstance(value, dict)
        and is_optimizer_state(value.get("optimizer_state_dict"))
        and any(name in value for name in (*MASTERS, FLAT_MASTERS))
    )


def is_optimizer_state(value: Any) -> bool:
    """`torch.optim.Optimizer.state_dict()`."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("state"), dict)
        and isinstance(value.get("param_groups"), list)
        and bool(value["param_groups"])
        and all(_is_group(group) for group in value["param_groups"])
    )


def _is_group(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("params"), list)
        and all(isinstance(index, Hashable) for index in value["params"])
    )


def is_model_state(value: Any) -> bool:
    """`nn.Module.state_dict()`, or a dict that was made of one: tensors by names with dots."""
    return (
        isinstance(value, dict)
        and all(isinstance(key, str) for key in value)
        and any(isinstance(entry, torch.Tensor) for entry in value.values())
        and all(isinstance(entry, torch.Tensor) or "_extra_state" in key for key, entry in value.items())
        and (isinstance(value, OrderedDict) or any("." in key for key in value))
    )
