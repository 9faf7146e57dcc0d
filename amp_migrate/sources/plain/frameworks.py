"""Frameworks that own the training loop, with the switch of their own that turns mixed precision on (rule H6).

Scripts without any backward are none of this source form: they are told in `sources/own_loops.py`.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.facts import Facts
from amp_migrate.findings import Refusal
from amp_migrate.rules.fp16_utils import UNKNOWN_WRAPPER
from amp_migrate.rules.plain import FRAMEWORK
from amp_migrate.sources.own_loops import ACCELERATE, FASTAI, IGNITE, LIGHTNING, OPENMMLAB, TRANSFORMERS, run_by
from amp_migrate.sources.plain.losses import Loss
from amp_migrate.sources.plain.optimizers import Optimizers

# What is used of a package, as its resolved name begins, and how mixed precision is asked for there.
_SWITCHES = (
    (("accelerate.Accelerator",), ACCELERATE.name, ACCELERATE.switch),
    (("pytorch_lightning.", "lightning.", "lightning_fabric."), LIGHTNING.name, LIGHTNING.switch),
    (("deepspeed.",), "DeepSpeed", '"fp16": {"enabled": true} in its configuration'),
    (("fairseq.",), "fairseq", "--fp16"),
    (("mmcv.runner.", "mmengine.", "mmcv.engine."), OPENMMLAB.name, OPENMMLAB.switch),
    (("ignite.engine.create_supervised_trainer",), IGNITE.name, IGNITE.switch),
    (("horovod.",), "Horovod", "a GradScaler with optimizer.synchronize() before scaler.unscale_, by its own guide"),
    (("catalyst.",), "Catalyst", "fp16=True"),
    (("fastai.",), FASTAI.name, FASTAI.switch),
    (("transformers.Trainer", "transformers.Seq2SeqTrainer"), TRANSFORMERS.name, TRANSFORMERS.switch),
    (("colossalai.",), "Colossal-AI", "Booster(mixed_precision=...)"),
    (("torch_xla.",), "PyTorch/XLA", "torch_xla.amp"),
    (("torch.distributed.fsdp.",), "FSDP", "MixedPrecision(param_dtype=...) with a ShardedGradScaler"),
)
_DATA = ("fairseq.data.",)  # dictionaries and data sets, which train nothing
_ENGINES = frozenset("accelerator fabric engine model_engine booster trainer".split())


def owned_by_framework(facts: Facts, optimizers: Optimizers, losses: list[Loss]) -> Refusal | None:
    """The first use of a framework in a file that trains, or a backward that is a method of one, or of a wrapper that
    another file puts around the optimizer.
    """
    files = {facts.tree.root_of(loss.call) for loss in losses}
    for statement in facts.tree.all_statements():
        if statement.function.root not in files or isinstance(statement.node, (cst.Import, cst.ImportFrom)):
            continue
        for part in facts.tree.expressions(statement):
            if isinstance(part, (cst.Name, cst.Attribute)) and not facts.tree.is_label(part):
                dotted = facts.names.dotted(part)
                if dotted is None or f"{dotted}.".startswith(_DATA):
                    continue
                for prefixes, name, switch in _SWITCHES:
                    if dotted.startswith(prefixes):
                        return Refusal(FRAMEWORK, part, run_by(name, switch))
    for loss in losses:
        receiver = facts.text(loss.loss).split(".")[-1].lower()
        given = [facts.text(arg.value) for arg in loss.arguments if arg.keyword is None]
        if receiver in _ENGINES or optimizers.optimizers_at(loss.loss) or any("loss" in text.lower() for text in given):
            text = facts.text(loss.call)
            if "optim" in receiver:
                message = f"{text} may scale the loss, and its class was not found"
                return Refusal(UNKNOWN_WRAPPER, loss.call, message, case="wrapper")
            message = f"{text} is a backward of an object that may run the training"
            return Refusal(FRAMEWORK, loss.call, message, case="unknown")
    return None
