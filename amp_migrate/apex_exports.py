"""What `from apex.parallel import *` and its like bind ([A:apex/*/__init__.py]; only `apex` has had an `__all__`).

A star import of one of these modules is read as an import of its names. What the modules import themselves (`torch`)
is not here: a script that needs Apex for that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping

_AMP = (
    "initialize init scale_loss master_params state_dict load_state_dict disable_casts half_function float_function "
    "promote_function register_half_function register_float_function register_promote_function"
)
_FP16_UTIL = (
    "BN_convert_float network_to_half prep_param_lists model_grads_to_master_grads clip_grad_norm "
    "master_params_to_model_params tofp16 to_python_float convert_module convert_network FP16Model"
)
_SCALERS = "LossScaler DynamicLossScaler"

APEX_EXPORTS: Mapping[str, tuple[str, ...]] = {
    module: tuple(names.split())
    for module, names in {
        "apex": "amp parallel optimizers normalization fp16_utils multi_tensor_apply RNN",
        "apex.amp": _AMP,
        "apex.fp16_utils": f"{_FP16_UTIL} FP16_Optimizer {_SCALERS} fp16util fp16_optimizer loss_scaler",
        "apex.fp16_utils.fp16util": _FP16_UTIL,
        "apex.fp16_utils.fp16_optimizer": f"FP16_Optimizer {_SCALERS} model_grads_to_master_grads "
        "master_params_to_model_params clip_grad_norm",
        "apex.fp16_utils.loss_scaler": f"{_SCALERS} to_python_float",
        "apex.parallel": "DistributedDataParallel Reducer SyncBatchNorm LARC convert_syncbn_model "
        "create_syncbn_process_group ReduceOp",
        "apex.parallel.distributed": "DistributedDataParallel Reducer",
        "apex.parallel.LARC": "LARC",
        "apex.optimizers": "FusedAdam FusedSGD FusedLAMB FusedNovoGrad FusedAdagrad FP16_Optimizer",
        "apex.normalization": "FusedLayerNorm FusedRMSNorm MixedFusedLayerNorm MixedFusedRMSNorm",
        "apex.multi_tensor_apply": "multi_tensor_applier MultiTensorApply",
    }.items()
}
