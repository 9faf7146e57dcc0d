"""What torch has in the place of each companion, as data.

Signatures and semantics: [A:apex/parallel, apex/optimizers, apex/normalization] as of the last commit that holds
apex.parallel (May 2025), torch's as of 2.13; sections 1.8 to 1.10 of the reference.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from amp_migrate.rules.companions import (
    DISTRIBUTED_DATA_PARALLEL,
    FUSED_NORMALIZATION,
    FUSED_OPTIMIZER,
    SYNCHRONISED_BATCH_NORM,
)
from amp_migrate.rules.rule import Rule

DDP = "apex.parallel.DistributedDataParallel"
SYNC_BATCH_NORM = "apex.parallel.SyncBatchNorm"
CONVERT = "apex.parallel.convert_syncbn_model"
FUSED_ADAM = "apex.optimizers.FusedAdam"


@dataclasses.dataclass(frozen=True)
class Companion:
    """One class or function.

    `target` is torch's, `takes` are Apex's parameters in order and `gives` torch's, as far as Apex has them. Without
    native form are parameters in `only`, unless they have the value given there, which says nothing natively; those in
    neither `gives` nor `only` never say anything natively. `explicit` are arguments that torch has to be given where
    the source gives none. `unless` names a parameter, a value of it and what it makes of this. `since` is the first
    torch that has the target. A `drop_in` can be replaced wherever its name stands, whatever is done with it, unless
    somebody gives it what only Apex takes. `rule` is that of the finding about a call, None
    for none, and `case` one of its cases.
    """

    target: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    rule: Rule | None
    only: Mapping[str, object] = dataclasses.field(default_factory=dict)
    explicit: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unless: tuple[str, object, Companion] | None = None
    since: tuple[int, int] = (0, 0)
    drop_in: bool = False
    case: str = ""

    @property
    def of_apex(self) -> frozenset[str]:
        """The parameters that torch's has not."""
        return frozenset(self.takes) - set(self.gives)


_ADAM = Companion(
    "torch.optim.Adam",
    tuple(
        "params lr bias_correction betas eps adam_w_mode weight_decay amsgrad set_grad_none capturable "
        "master_weights".split()
    ),
    ("params", "lr", "betas", "eps", "weight_decay", "amsgrad"),
    FUSED_OPTIMIZER,
    only={"bias_correction": True, "adam_w_mode": False, "master_weights": False, "capturable": False},
)
_NORM = ("normalized_shape", "eps", "elementwise_affine", "memory_efficient")
_LAYER_NORM = Companion("torch.nn.LayerNorm", _NORM, _NORM[:3], FUSED_NORMALIZATION, drop_in=True)
_RMS_NORM = Companion("torch.nn.RMSNorm", _NORM, _NORM[:3], FUSED_NORMALIZATION, explicit={"eps": "1e-5"}, since=(2, 4))
_LAYER = Companion(
    "torch.nn.functional.layer_norm",
    ("input", "weight", "bias", "normalized_shape", "eps", "memory_efficient"),
    ("input", "normalized_shape", "weight", "bias", "eps"),
    FUSED_NORMALIZATION,
    explicit={"eps": "1e-6"},  # not the 1e-5 of the class
)
_RMS = Companion(
    "torch.nn.functional.rms_norm",
    ("input", "weight", "normalized_shape", "eps", "memory_efficient"),
    ("input", "normalized_shape", "weight", "eps"),
    FUSED_NORMALIZATION,
    explicit={"eps": "1e-6"},
    since=(2, 4),
)
_WITHOUT_WEIGHTS = ("input", "normalized_shape", "eps", "memory_efficient")

COMPANIONS = {
    "apex.parallel.ReduceOp": Companion("torch.distributed.ReduceOp", (), (), None, drop_in=True),
    DDP: Companion(
        "torch.nn.parallel.DistributedDataParallel",
        tuple(
            "module message_size delay_allreduce shared_param allreduce_trigger_params retain_allreduce_buffers "
            "allreduce_always_fp32 num_allreduce_streams allreduce_communicators gradient_average "
            "gradient_predivide_factor gradient_average_split_factor prof".split()
        ),
        ("module",),
        DISTRIBUTED_DATA_PARALLEL,
        only={"gradient_average": True},
        explicit={"broadcast_buffers": "False"},
    ),
    SYNC_BATCH_NORM: Companion(
        "torch.nn.SyncBatchNorm",
        tuple("num_features eps momentum affine track_running_stats process_group channel_last fuse_relu".split()),
        ("num_features", "eps", "momentum", "affine", "track_running_stats", "process_group"),
        SYNCHRONISED_BATCH_NORM,
        only={"channel_last": False, "fuse_relu": False},
        drop_in=True,
    ),
    CONVERT: Companion(
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        ("module", "process_group", "channel_last"),
        ("module", "process_group"),
        SYNCHRONISED_BATCH_NORM,
        only={"channel_last": False},
    ),
    FUSED_ADAM: dataclasses.replace(
        _ADAM,
        target="torch.optim.AdamW",
        only={**_ADAM.only, "adam_w_mode": True},
        explicit={"weight_decay": "0.0"},  # torch's default is 0.01
        unless=("adam_w_mode", False, _ADAM),
    ),
    "apex.optimizers.FusedSGD": Companion(
        "torch.optim.SGD",
        tuple(
            "params lr momentum dampening weight_decay nesterov wd_after_momentum materialize_master_grads "
            "set_grad_none".split()
        ),
        ("params", "lr", "momentum", "dampening", "weight_decay", "nesterov"),
        None,
        only={"wd_after_momentum": False},
    ),
    "apex.optimizers.FusedAdagrad": Companion(
        "torch.optim.Adagrad",
        ("params", "lr", "eps", "weight_decay", "set_grad_none", "adagrad_w_mode"),
        ("params", "lr", "", "weight_decay", "", "eps"),
        FUSED_OPTIMIZER,
        only={"adagrad_w_mode": False},
        case="sums",
    ),
    "apex.normalization.FusedLayerNorm": _LAYER_NORM,
    "apex.normalization.FusedRMSNorm": _RMS_NORM,
    "apex.normalization.fused_layer_norm_affine": _LAYER,
    "apex.normalization.fused_layer_norm": dataclasses.replace(_LAYER, takes=_WITHOUT_WEIGHTS),
    "apex.normalization.fused_rms_norm_affine": _RMS,
    "apex.normalization.fused_rms_norm": dataclasses.replace(_RMS, takes=_WITHOUT_WEIGHTS),
}

# What has no native form, and what to do about it.
WITHOUT_NATIVE_FORM = {
    "apex.parallel.LARC": "copy its one file, or use LARS of another package; a GradScaler has to unscale and step the "
    "same object, the wrapper",
    "apex.parallel.Reducer": "all-reduce the gradients and divide by the number of processes, with torch.distributed",
    "apex.parallel.create_syncbn_process_group": "make the groups with torch.distributed.new_group",
    "apex.parallel.multiproc": "start the script with torchrun",
    "apex.optimizers.FusedLAMB": "torch.optim has no LAMB",
    "apex.optimizers.FusedMixedPrecisionLamb": "torch.optim has no LAMB",
    "apex.optimizers.FusedNovoGrad": "torch.optim has no NovoGrad",
    "apex.normalization.MixedFusedLayerNorm": "torch.nn.LayerNorm has another output dtype: that of its input",
    "apex.normalization.MixedFusedRMSNorm": "torch.nn.RMSNorm has another output dtype: that of its input",
    "apex.multi_tensor_apply": "use the torch._foreach functions, or torch.nn.utils",
    "apex.contrib": "torch has no layer or optimizer with the same arguments",
    "apex.mlp": "write it as torch.nn.Linear layers; the names of its weights differ",
    "apex.fused_dense": "write it as torch.nn.Linear layers",
    "apex.RNN": "use torch.nn's",
    "apex.reparameterization": "use torch.nn.utils.parametrizations.weight_norm",
    "apex.pyprof": "use torch.profiler",
    "apex.transformer": "use Megatron-LM's own",
}

_MODULES = frozenset(
    "LARC distributed sync_batchnorm optimized_sync_batchnorm fused_adam fused_sgd fused_lamb fused_novograd "
    "fused_adagrad fused_layer_norm".split()
)


def canonical(path: str) -> str:
    """The name of a companion without the submodule that holds it: `apex.optimizers.fused_adam.FusedAdam`."""
    parts = path.split(".")
    if len(parts) > 3 and parts[2] in _MODULES:
        del parts[2]
    return ".".join(parts)


# What only Apex's classes take, of those that torch's can replace wherever they are named.
APEX_ONLY = re.compile(
    "|".join(sorted({rf"\b{word}\b" for one in COMPANIONS.values() if one.drop_in for word in one.of_apex})).encode()
)


def words_in(source: bytes) -> frozenset[str]:
    """The names of arguments that only Apex takes, as far as they stand in a file."""
    return frozenset(word.decode() for word in APEX_ONLY.findall(source))


def family(path: str) -> str:
    """Companions that can only be migrated together: one makes instances of the other."""
    return SYNC_BATCH_NORM if path == CONVERT else path
