"""The source forms in words: what they are, what becomes of them, and when they stay."""

from __future__ import annotations

from typing import NamedTuple

from amp_migrate.rules.source_forms import APEX_AMP, COMPANIONS, FP16_UTILS, HALF, MODERNISE, NATIVE, PLAIN

_AMP = "https://docs.pytorch.org/docs/stable/amp.html"
_EXAMPLES = "https://docs.pytorch.org/docs/stable/notes/amp_examples.html"
_APEX = "https://nvidia.github.io/apex/"


class Form(NamedTuple):
    """`stays` says when files with this form are left alone."""

    what: str
    why: str
    stays: str
    links: tuple[str, ...]


FORMS = {
    APEX_AMP: Form(
        "`amp.initialize`, `amp.scale_loss` and what belongs to them become one GradScaler, autocast around the "
        "forward and the loss, `unscale_` before gradients are used, and one `update` for each optimizer step; the "
        "levels O1, O2 and O3 all become autocast. The old handle (`amp.init()`, `wrap_optimizer`) is read, too.",
        "Apex deprecated its amp in 2022 and deleted it in 2025: these scripts do not run on today's torch.",
        "A unit stays where the handle, the optimizer or the scaled loss cannot be followed, where gradients are used "
        "in a way that no place of `unscale_` serves, or where native AMP is there beside Apex.",
        (_AMP, _EXAMPLES, f"{_APEX}amp.html"),
    ),
    FP16_UTILS: Form(
        "`FP16_Optimizer`, copies of it, `network_to_half` and loops over master weights become float32 weights under "
        "autocast with a GradScaler. The program without mixed precision is the specification of the result.",
        "Apex's fp16_utils is older than its amp, and was deleted with it.",
        "A unit stays where a copy of FP16_Optimizer is in a file that is not at hand, or steps by a closure; where "
        "the half arm does more than the other one in a way that cannot be undone.",
        (_AMP, _EXAMPLES, f"{_APEX}fp16_utils.html"),
    ),
    HALF: Form(
        "`model.half()` and the casts that go with it, loss scales and master copies made by hand become float32 "
        "weights under autocast with a GradScaler: all of it, or nothing.",
        "A training in pure half precision loses small updates, and stops with NaN where a value exceeds 65504.",
        "Inference in half stays. A training stays where what steps on the half weights is not known, where casts "
        "cannot be told from data, or where the model decides about its precision itself.",
        (_AMP, _EXAMPLES),
    ),
    PLAIN: Form(
        "A float32 training loop gets autocast around forward and loss and a GradScaler, switched by the script's own "
        "choice of a device. Models and losses are read for what breaks in half precision: constants beyond its range, "
        "products that overflow, linear algebra, spectral code; what can be repaired exactly and locally is.",
        "Tensor cores stand idle in float32; half precision needs less memory, and is often twice as fast.",
        "A loop stays where nothing shows a GPU, where it belongs to a framework with a precision switch of its own, "
        "where it optimizes second order, or where a line would break in half and has no exact repair. Under --check "
        "and in pre-commit it is reported only, unless it is selected.",
        (_AMP, _EXAMPLES),
    ),
    COMPANIONS: Form(
        "What Apex has beside amp becomes torch's own: DistributedDataParallel, SyncBatchNorm, FusedAdam, FusedSGD, "
        "FusedLayerNorm, FusedRMSNorm, multi_tensor_applier.",
        "Their kernels are no longer built where they are not needed, and an import of Apex is all it takes to stop.",
        "An import stays, with a finding, where torch has no counterpart, or one with another meaning.",
        (f"{_APEX}parallel.html", f"{_APEX}optimizers.html", f"{_APEX}layernorm.html"),
    ),
    MODERNISE: Form(
        "`torch.cuda.amp` becomes `torch.amp`, with the device as an argument, and keywords where positions changed.",
        "torch 2.4 and newer warn about the old names.",
        "It stays unless the project declares torch 2.3 or newer, or `--api torch.amp` is given; and where an alias "
        "would mean two things.",
        (_AMP,),
    ),
    NATIVE: Form(
        "Native AMP that was there before us is checked for the mistakes that people make. Nothing is changed.",
        "They raise no error: clipped gradients that are still scaled, a scaler that is made in each epoch.",
        "Only what is certainly a mistake is reported.",
        (_AMP, _EXAMPLES),
    ),
}
