"""`amp.initialize`."""

from types import MethodType
from typing import Any

import torch

from ..fp16_utils import FP16_Optimizer
from ..parallel.LARC import LARC
from ._amp_state import _amp_state
from .handle import disable_casts
from .install import init
from .models import cast_forward, cast_model, check_models
from .process_optimizer import process_optimizer
from .properties import Properties
from .scaler import LossScaler


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: Any = True,
    opt_level: str = "O1",
    cast_model_type: Any = None,
    patch_torch_functions: Any = None,
    keep_batchnorm_fp32: Any = None,
    master_weights: Any = None,
    loss_scale: Any = None,
    cast_model_outputs: torch.dtype | None = None,
    num_losses: int = 1,
    verbosity: int = 1,
    min_loss_scale: float | None = None,
    max_loss_scale: float = 2.0**24,
) -> Any:
    """Set up models, optimizers and torch for a level; returns the same objects in the shape they came in.

    Raises:
        RuntimeError: unknown level, override that does not fit it, cudnn off, model or optimizer unfit.
        TypeError: models or optimizers are neither one object nor a list.
    """
    _amp_state.opt_properties = properties = Properties()
    _amp_state.verbosity = verbosity
    if not enabled:
        return models if optimizers is None else (models, optimizers)
    if not torch.backends.cudnn.enabled:
        raise RuntimeError("Amp requires torch.backends.cudnn.enabled = True")
    properties.select(opt_level)
    overrides = {
        "cast_model_type": cast_model_type,
        "patch_torch_functions": patch_torch_functions,
        "keep_batchnorm_fp32": keep_batchnorm_fp32,
        "master_weights": master_weights,
        "loss_scale": loss_scale,
    }
    for name, value in overrides.items():
        if value is not None:
            properties.override(name, value)
    _amp_state.min_loss_scale, _amp_state.max_loss_scale = min_loss_scale, max_loss_scale

    all_optimizers = _as_list_of_optimizers(optimizers)
    all_models = _as_list_of_models(models)
    check_models(all_models, _amp_state.allow_incoming_model_not_fp32)
    _cast(all_models, all_optimizers, properties, cast_model_outputs)
    for optimizer in all_optimizers:
        process_optimizer(optimizer, properties.master_weights)
    _amp_state.loss_scalers = [
        LossScaler(properties.loss_scale, min_loss_scale=min_loss_scale, max_loss_scale=max_loss_scale)
        for _ in range(num_losses)
    ]
    if properties.patch_torch_functions:
        init(loss_scale=properties.loss_scale)
        for optimizer in all_optimizers:
            optimizer.step = MethodType(_without_casts(optimizer.step), optimizer)
    return models if optimizers is None else (models, optimizers)


def _as_list_of_optimizers(optimizers: Any) -> list[Any]:
    if isinstance(optimizers, (torch.optim.Optimizer, LARC)):
        return [optimizers]
    if optimizers is None:
        return []
    listed = optimizers if isinstance(optimizers, list) else [optimizers]
    if any(isinstance(optimizer, FP16_Optimizer) for optimizer in listed):
        raise RuntimeError("An incoming optimizer is an FP16_Optimizer: amp.initialize takes the bare optimizer.")
    if not isinstance(optimizers, list):
        raise TypeError("optimizers must be either a single optimizer or a list of optimizers.")
    return list(optimizers)


def _as_list_of_models(models: Any) -> list[Any]:
    if isinstance(models, torch.nn.Module):
        return [models]
    if isinstance(models, list):
        return list(models)
    raise TypeError("models must be either a single model or a list of models.")


def _cast(models: list[Any], optimizers: list[Any], properties: Properties, outputs: torch.dtype | None) -> None:
    """Cast weights, inputs and outputs as the level asks; O1 casts at most the outputs."""
    if properties.cast_model_type:
        for model in models:
            cast_model(model, properties.cast_model_type, properties.keep_batchnorm_fp32)
            cast_forward(model, properties.cast_model_type, outputs or torch.float32)
        for optimizer in optimizers:  # loading a state casts it to the new dtype of its parameter
            optimizer.load_state_dict(optimizer.state_dict())
    elif outputs is not None:
        for model in models:
            cast_forward(model, None, outputs)


def _without_casts(old_step: Any) -> Any:
    """Optimizers work on fp32 parameters: O1's casts have no place in a step."""

    def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        with disable_casts():
            return old_step(*args, **kwargs)

    return step
