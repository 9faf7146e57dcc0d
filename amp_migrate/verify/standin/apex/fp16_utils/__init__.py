"""`apex.fp16_utils`: mixed precision by hand, with master weights in an optimizer wrapper."""

from .convert import BN_convert_float, FP16Model, convert_module, convert_network, network_to_half, tofp16
from .fp16_optimizer import FP16_Optimizer
from .loss_scaler import DynamicLossScaler, LossScaler
from .param_lists import (
    clip_grad_norm,
    master_params_to_model_params,
    model_grads_to_master_grads,
    prep_param_lists,
    to_python_float,
)

__all__ = [
    "BN_convert_float",
    "DynamicLossScaler",
    "FP16Model",
    "FP16_Optimizer",
    "LossScaler",
    "clip_grad_norm",
    "convert_module",
    "convert_network",
    "master_params_to_model_params",
    "model_grads_to_master_grads",
    "network_to_half",
    "prep_param_lists",
    "to_python_float",
    "tofp16",
]
