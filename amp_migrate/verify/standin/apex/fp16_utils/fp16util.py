"""`apex.fp16_utils.fp16util`: the functions, by the name of the module that has them in Apex."""

from .convert import BN_convert_float, FP16Model, convert_module, convert_network, network_to_half, tofp16
from .param_lists import (
    clip_grad_norm,
    master_params_to_model_params,
    model_grads_to_master_grads,
    prep_param_lists,
    to_python_float,
)

__all__ = [
    "BN_convert_float",
    "FP16Model",
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
