"""CUDA redirected to the CPU: scripts written for a GPU run without one, in real fp16 and under CUDA's autocast policy.

The scheme: every tensor lives on the CPU and says that it lives on `cuda:0`; everything that takes a device reads
"cuda" as "cpu". `x.device` is a real `torch.device`, so `x.device.type == "cuda"`, `str(x.device)` and
`torch.zeros(2, device=x.device)` all work, and torch's own Python code (GradScaler, autocast, optimizers, DataParallel)
takes its CUDA branches without being changed. The one thing that is lost: no tensor is "on the CPU" any more, so a
forgotten `.cuda()` goes unnoticed.
"""

from __future__ import annotations

# Every optimizer imports it, and it does not bear functions of torch that were replaced before.
import torch._dynamo  # noqa: F401

from amp_migrate.verify.redirect import autocast, compiler, cuda, devices, factories, kernels, legacy, parallel, tensors


def install() -> None:
    """Redirect CUDA to the CPU in this process: once, before the script is imported; it is never undone."""
    for part in (cuda, devices, factories, tensors, legacy, parallel, compiler, autocast, kernels):
        part.install()
