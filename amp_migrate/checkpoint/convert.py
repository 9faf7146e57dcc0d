"""A loaded checkpoint, changed in place: what Apex saved becomes what native code loads, or back."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from amp_migrate.checkpoint import adam, prefixes, scalers, weights
from amp_migrate.checkpoint.errors import CheckpointError
from amp_migrate.checkpoint.find import (
    FLAT_MASTERS,
    MASTERS,
    Place,
    is_amp_state,
    is_fp16_optimizer_state,
    is_grad_scaler_state,
    is_model_state,
    is_optimizer_state,
    places,
)
from amp_migrate.checkpoint.read import PickledScaler

_SCALER_KEY = "scaler"


@dataclasses.dataclass
class Report:
    """What was changed, and what a person should know beside; each line begins with the place."""

    changes: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)


def to_native(checkpoint: Any) -> Report:
    """Apex's forms to native ones.

    Raises CheckpointError: something of Apex is there that has no native form; the checkpoint is then half changed
    and must not be written.
    """
    report = Report()
    found = list(places(checkpoint))
    wrapped = [place for place in found if is_fp16_optimizer_state(place.value)]
    _refuse_flat_masters(wrapped)
    was_half = _weights(found, wrapped, report)
    _prefixes(found, was_half, report, from_fp16_utils=bool(wrapped))
    for place in found:
        with _at(place):
            if is_amp_state(place.value):
                _amp_state(place, report)
            elif isinstance(place.value, PickledScaler) and place.above not in wrapped:
                _lone_scaler(place, report)
            elif is_optimizer_state(place.value) and adam.is_fused_adam(place.value):
                _fused_adam(place, report)
    _unwrap(wrapped, report)
    return report


def to_apex(checkpoint: Any, *, fused_adam: bool) -> Report:
    """GradScaler's states to amp's, and with `fused_adam` Adam's steps to FusedAdam's.

    Raises CheckpointError: what is asked for has no form in Apex, or can't be written without it.
    """
    report = Report()
    found = list(places(checkpoint))
    for place in found:
        with _at(place):
            if is_grad_scaler_state(place.value):
                _grad_scaler_state(place, report)
            elif is_optimizer_state(place.value) and adam.is_native_adam(place.value):
                _native_adam(place, report, fused_adam=fused_adam)
    pickled = [place for place in found if isinstance(place.value, PickledScaler)]
    if pickled and report.changes:
        raise CheckpointError(f"{pickled[0].path} is an object of Apex, which can't be written without Apex")
    return report


@contextlib.contextmanager
def _at(place: Place) -> Iterator[None]:
    """Says where it was that something could not be converted."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{place.path}: {error}") from None


def _refuse_flat_masters(wrapped: list[Place]) -> None:
    for place in wrapped:
        if FLAT_MASTERS in place.value:
            raise CheckpointError(
                f"{place.path} is of apex.optimizers.FP16_Optimizer, which kept the weights and moments of a group in "
                "one vector: no native optimizer loads that. Delete this entry and start the optimizer anew; the "
                "weights of the model are in the file beside it"
            )


def _weights(found: list[Place], wrapped: list[Place], report: Report) -> set[str]:
    """Half weights become float32, with the values of the masters where these can be told apart; returns where."""
    casts = weights.Casts()
    models = [place for place in found if is_model_state(place.value)]
    amp_is_there = any(is_amp_state(place.value) for place in found)
    halves: dict[str, list[torch.Tensor]] = {}
    for place in models:
        tensors = weights.cast(place.value, casts)
        if tensors:
            halves[place.path] = tensors
        elif amp_is_there and weights.look_rounded(place.value):
            report.notes.append(
                f"{place.path}: float32 with the values of float16, as Apex saves O2; its float32 masters were never "
                "in a file, and Apex itself went on from these values"
            )
    taken = dict.fromkeys(halves, "")
    for place in wrapped:
        masters = _masters(place)
        if not any(masters):  # all weights were in float32
            continue
        owners = [(path, weights.weights_of(masters, tensors)) for path, tensors in halves.items()]
        certain = [(path, owned) for path, owned in owners if owned is not None]
        if len(certain) == 1:
            path, owned = certain[0]
            weights.take_values(owned, masters)
            taken[path] += f", {len(owned)} of them with the exact values of the masters in {place.path}"
        else:
            report.notes.append(
                f"{place.path}: the float32 masters are left out, and training goes on from the weights that were "
                f"rounded to float16: {_why_not(halves, certain)}"
            )
    for path, tensors in halves.items():
        report.changes.append(f"{path}: {_tensors(len(tensors))} from float16 to float32{taken[path]}")
    return set(halves)


def _why_not(halves: dict[str, Any], certain: list[Any]) -> str:
    if not halves:
        return "the model's half weights are not in this file"
    if certain:
        return "they fit more than one state dict"
    return "no state dict has exactly these weights in this order"


def _masters(place: Place) -> list[list[torch.Tensor]]:
    groups = next(place.value[name] for name in MASTERS if name in place.value)
    if not (
        isinstance(groups, list)
        and all(isinstance(group, (list, tuple)) for group in groups)
        and all(weights.is_dense(master) for group in groups for master in group)
    ):
        raise CheckpointError(f"{place.path}: the masters are no lists of tensors")
    return [list(group) for group in groups]


def _prefixes(found: list[Place], was_half: set[str], report: Report, *, from_fp16_utils: bool) -> None:
    for place in found:
        prefix = prefixes.wrapper_prefix(place.value) if is_model_state(place.value) else None
        if prefix is None:
            continue
        if from_fp16_utils:
            prefixes.strip(place.value, prefix)
            report.changes.append(
                f'{place.path}: "{prefix.wrapper}" of {prefix.origin} is taken out of all {len(place.value)} keys'
            )
        elif place.path in was_half:
            report.notes.append(
                f'{place.path}: all keys begin with "{prefix}"; if that is of {prefix.origin}, which native code does '
                "not use, take it out when you load"
            )


def _amp_state(place: Place, report: Report) -> None:
    state = scalers.from_amp_state(place.value)
    several = "" if len(place.value) == 1 else f"the lowest of {len(place.value)} scalers, "
    _replace(place.value, state.native())
    report.changes.append(f"{place.path}: amp's state becomes GradScaler's: {several}{_describe(state)}")
    _scaler_notes(place, state, report)


def _grad_scaler_state(place: Place, report: Report) -> None:
    state = scalers.from_grad_scaler(place.value)
    _replace(place.value, state.apex())
    report.changes.append(f"{place.path}: GradScaler's state becomes amp's: {_describe(state)}")
    if not state.grows_as_amp:
        report.notes.append(
            f"{place.path}: growth by {state.factor} after {state.interval} steps is not kept: amp's is by 2 after 2000"
        )


def _native_adam(place: Place, report: Report, *, fused_adam: bool) -> None:
    if fused_adam:
        report.changes.append(f"{place.path}: {adam.to_groups(place.value)}")
    else:
        report.notes.append(
            f"{place.path}: Adam's steps stay with the parameters, where torch's Adam looks for them under Apex, too; "
            "--fused-adam is for scripts with apex.optimizers.FusedAdam"
        )


def _fused_adam(place: Place, report: Report) -> None:
    if not adam.has_native_form(place.value):
        report.notes.append(f"{place.path}: FusedLAMB or FusedNovoGrad: torch has none, so it stays as it is")
        return
    if not adam.corrects_bias(place.value):
        report.notes.append(f"{place.path}: bias_correction=False was used; torch's Adam always corrects")
    report.changes.append(f"{place.path}: {adam.to_parameters(place.value)}")


def _lone_scaler(place: Place, report: Report) -> None:
    state = scalers.from_fields(vars(place.value))
    if place.above is None or not isinstance(place.above.value, (dict, list)):
        raise CheckpointError(f"{place.path} is an object of Apex that can't be replaced where it is")
    place.above.value[place.key] = state.native()
    report.changes.append(f"{place.path}: Apex's loss scaler becomes GradScaler's state: {_describe(state)}")
    _scaler_notes(place, state, report)


def _unwrap(wrapped: list[Place], report: Report) -> None:
    """FP16_Optimizer's state becomes that of the optimizer in it; its scaler goes into the dict around it."""
    beside: dict[int, tuple[Place, list[scalers.ScalerState]]] = {}
    for place in wrapped:
        scaler = place.value.get("loss_scaler")
        with _at(place):
            state = scalers.from_fields(vars(scaler) if isinstance(scaler, PickledScaler) else place.value)
        _replace(place.value, place.value["optimizer_state_dict"])
        report.changes.append(f"{place.path}: FP16_Optimizer's state becomes that of the optimizer in it")
        _scaler_notes(place, state, report)
        around = place.dict_above()
        if around is None:
            report.notes.append(
                f"{place.path}: there is no dict around it to hold a GradScaler's state; start with "
                f"GradScaler(init_scale={state.scale})"
            )
        else:
            beside.setdefault(id(around.value), (around, []))[1].append(state)
    for around, states in beside.values():
        path = f"{around.path}[{_SCALER_KEY!r}]"
        state = scalers.lowest(states)
        if _SCALER_KEY in around.value:
            report.notes.append(f"{path}: is there already and stays; FP16_Optimizer had {_describe(state)}")
        else:
            around.value[_SCALER_KEY] = state.native()
            report.changes.append(f"{path}: new, GradScaler's state: {_describe(state)}")


def _scaler_notes(place: Place, state: scalers.ScalerState, report: Report) -> None:
    if state.is_static:
        report.notes.append(
            f"{place.path}: the loss scale was static; GradScaler changes its own unless scaler.update({state.scale}) "
            "follows every step" + (", and GradScaler(enabled=False) does the same as 1.0" if state.scale == 1 else "")
        )
    if state.limits:
        report.notes.append(f"{place.path}: GradScaler has no {state.limits}; clamp the scale after scaler.update()")


def _replace(old: dict[Any, Any], new: dict[Any, Any]) -> None:
    """In place, since a checkpoint may hold one dict twice."""
    old.clear()
    old.update(new)


def _describe(state: scalers.ScalerState) -> str:
    return f"scale {state.scale}, {state.good_steps} steps since it changed"


def _tensors(count: int) -> str:
    return "1 tensor" if count == 1 else f"{count} tensors"
