"""Where and with what the results were made."""

from __future__ import annotations

import dataclasses
import datetime
import subprocess
from pathlib import Path

import torch

ROOT = Path(__file__).parent.parent.parent


@dataclasses.dataclass(frozen=True)
class Machine:
    """Facts that a reader needs to judge the numbers; None for what the machine does not have or does not tell."""

    date: str
    device: str
    driver: str | None
    cuda: str | None
    cudnn: int | None
    torch: str
    commit: str | None
    changed_since: bool | None  # files differ from the commit
    float32_products: str  # of matrices and of convolutions: TF32 makes float32 faster


def this_machine(device: str, commit: str | None = None) -> Machine:
    """`device` is "cuda" or "cpu"; `commit` is that of a copy without git, else git is asked."""
    on_gpu = device == "cuda"
    changes = _answer("git", "-C", str(ROOT), "status", "--porcelain", "--", ".", ":!docs/results")
    return Machine(
        date=datetime.date.today().isoformat(),
        device=torch.cuda.get_device_name() if on_gpu else "cpu",
        driver=_answer("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") if on_gpu else None,
        cuda=torch.version.cuda if on_gpu else None,
        cudnn=torch.backends.cudnn.version() if on_gpu else None,
        torch=torch.__version__,
        commit=commit or _answer("git", "-C", str(ROOT), "rev-parse", "HEAD"),
        changed_since=bool(changes) if changes is not None and commit is None else None,
        float32_products=f"matrices {torch.get_float32_matmul_precision()}, convolutions "
        + ("TF32" if torch.backends.cudnn.allow_tf32 else "float32"),
    )


def _answer(*command: str) -> str | None:
    """The first line that a command prints; "" for none, None where it is not installed or fails."""
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return next(iter(output.splitlines()), "")
