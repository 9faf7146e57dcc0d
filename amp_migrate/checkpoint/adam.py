"""Where Adam's count of steps is: with each parameter in torch, with the parameter group in Apex's FusedAdam."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from amp_migrate.checkpoint.errors import CheckpointError
from amp_migrate.checkpoint.values import count

_MOMENTS = {"exp_avg", "exp_avg_sq"}


def is_fused_adam(state: dict[str, Any]) -> bool:
    """FusedAdam's state, or that of FusedLAMB, which counts in the same way."""
    groups = [group for group in state["param_groups"] if "step" in group]
    return bool(groups) and all({"bias_correction", "betas", "eps"} <= set(group) for group in groups)


def has_native_form(state: dict[str, Any]) -> bool:
    """False for FusedLAMB and FusedNovoGrad."""
    return not any("grad_averaging" in group for group in state["param_groups"])


def corrects_bias(state: dict[str, Any]) -> bool:
    """Torch's Adam always does."""
    return all(group.get("bias_correction") is not False for group in state["param_groups"])


def is_native_adam(state: dict[str, Any]) -> bool:
    """The state of torch's Adam or AdamW after a step; NAdam and its like keep more, or other things."""
    entries = [entry for group in state["param_groups"] for entry in _entries(state, group)]
    return bool(entries) and all(set(entry) - {"max_exp_avg_sq"} == _MOMENTS | {"step"} for entry in entries)


def to_parameters(state: dict[str, Any]) -> str:
    """Give every parameter that has moments the step of its group; returns what was done."""
    given = 0
    steps = []
    for group in state["param_groups"]:
        if "step" not in group:
            continue  # a group that never had a step
        step = count(group.pop("step"))
        steps.append(step)
        for entry in _entries(state, group):
            if "step" not in entry:
                # A tensor of its own each: Adam counts in place.
                entry["step"] = torch.tensor(float(step), dtype=torch.float32)
                given += 1
    return f"FusedAdam's step ({_list(steps)}) goes from the parameter groups to each of {given} parameters"


def to_groups(state: dict[str, Any]) -> str:
    """The other direction; returns what was done. Raises CheckpointError where FusedAdam could not go on from it."""
    steps = []
    for group in state["param_groups"]:
        entries = list(_entries(state, group))
        if group.get("amsgrad"):
            raise CheckpointError("FusedAdam has no amsgrad")
        counts = {count(entry.pop("step", None)) for entry in entries}
        if len(counts) > 1:
            raise CheckpointError(
                f"parameters of one group have made different numbers of steps ({_list(sorted(counts))}); FusedAdam "
                "counts by group"
            )
        if counts:
            group["step"] = counts.pop()
            steps.append(group["step"])
        group.setdefault("bias_correction", True)
    return f"Adam's steps ({_list(steps)}) go from the parameters to the parameter groups, for FusedAdam"


def _entries(state: dict[str, Any], group: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the optimizer knows of a group's parameters; nothing for those that never had a gradient."""
    for index in group["params"]:
        entry = state["state"].get(index)
        if isinstance(entry, dict) and entry:
            yield entry


def _list(steps: list[int]) -> str:
    return ", ".join(str(step) for step in dict.fromkeys(steps))
