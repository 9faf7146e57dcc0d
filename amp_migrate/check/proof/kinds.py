"""What may differ between a program and its migration, and why: tables of the comparison."""

from __future__ import annotations

# Two names that torch has for one thing.
SAME_NAME = {
    "torch.float": "torch.float32",
    "torch.autocast": "torch.amp.autocast",
    "torch.cuda.amp.autocast": "torch.amp.autocast",
    "torch.cuda.amp.GradScaler": "torch.amp.GradScaler",
    "torch.nn.parallel.distributed.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "torch.cuda.memory_cached": "torch.cuda.memory_reserved",
    "torch.cuda.max_memory_cached": "torch.cuda.max_memory_reserved",
    "torch.nn.utils.clip_grad.clip_grad_norm_": "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.clip_grad_norm": "torch.nn.utils.clip_grad_norm_",
}

# What torch has in place of other parts of Apex (rules I).
DDP = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")
COMPANIONS: dict[str, tuple[str, ...]] = {
    "apex.parallel.DistributedDataParallel": DDP,
    "apex.parallel.distributed.DistributedDataParallel": DDP,
    "apex.parallel.SyncBatchNorm": ("torch.nn.SyncBatchNorm",),
    "apex.parallel.ReduceOp": ("torch.distributed.ReduceOp",),
    "apex.parallel.convert_syncbn_model": ("torch.nn.SyncBatchNorm.convert_sync_batchnorm",),
    "apex.optimizers.FusedAdam": ("torch.optim.AdamW", "torch.optim.Adam"),
    "apex.optimizers.FusedSGD": ("torch.optim.SGD",),
    "apex.optimizers.FusedAdagrad": ("torch.optim.Adagrad",),
    "apex.normalization.FusedLayerNorm": ("torch.nn.LayerNorm",),
    "apex.normalization.fused_layer_norm.FusedLayerNorm": ("torch.nn.LayerNorm",),
    "apex.normalization.MixedFusedLayerNorm": ("torch.nn.LayerNorm",),
    "apex.normalization.FusedRMSNorm": ("torch.nn.RMSNorm",),
    "apex.normalization.fused_layer_norm.fused_layer_norm": ("torch.nn.functional.layer_norm",),
    "apex.normalization.fused_layer_norm.fused_layer_norm_affine": ("torch.nn.functional.layer_norm",),
}
# Arguments that only Apex has, and those that torch needs to do the same.
OLD_KEYWORDS = frozenset(
    "message_size delay_allreduce shared_param allreduce_trigger_params retain_allreduce_buffers allreduce_always_fp32 "
    "num_allreduce_streams allreduce_communicators gradient_average gradient_predivide_factor prof process_group "
    "adam_w_mode bias_correction set_grad_none master_weights materialize_master_grads channel_last max_grad_norm "
    "memory_efficient fuse_relu".split()
)
NEW_KEYWORDS = frozenset(
    "device_ids output_device broadcast_buffers find_unused_parameters weight_decay eps fused betas".split()
)

# The loss of probabilities becomes the loss of logits, where the sigmoid before it goes (rule E4).
BCE = {
    "torch.nn.BCELoss": "torch.nn.BCEWithLogitsLoss",
    "torch.nn.functional.binary_cross_entropy": "torch.nn.functional.binary_cross_entropy_with_logits",
}

# The words of mixed precision: what wraps a model, what copies of apex.fp16_utils are called wherever they lie, what a
# scale is called, and what else erasure takes away by its name.
DECORATORS = ("custom_fwd", "custom_bwd")
MODEL_WRAPPERS = tuple("network_to_half FP16Model FP16_Module BN_convert_float convert_network convert_module".split())
COPIED = {
    *MODEL_WRAPPERS,
    *DECORATORS,
    *("FP16_Optimizer tofp16 prep_param_lists to_python_float clip_grad_norm".split()),
    *("model_grads_to_master_grads master_params_to_model_params".split()),
}
SCALES = ("loss_scale", "cur_scale", "_loss_scale", "get_scale")
ABOUT_AMP = {
    *COPIED,
    *SCALES,
    *"apex amp autocast GradScaler nullcontext half float16 HalfTensor apply scale_loss".split(),
    *"disable_casts _disable_casts".split(),
}
