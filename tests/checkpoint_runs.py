"""Training runs that save and resume checkpoints, with Apex (the stand-in) and natively.

`python -m tests.checkpoint_runs` reads a list of jobs from standard input and writes their results: each is a run in a
process of its own, with CUDA redirected to the CPU, in fp16. Both sides train one model on the same batches; a job
says how ("O1", "O2", "FP16_Optimizer", "FusedAdam"), from and to which checkpoint, and for which steps.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import warnings

FIRST, LAST = 6, 14
# amp grows the scale at the 2000th good step, FP16_Optimizer here at the 9th: both between the two phases' ends.
WINDOW = 9
HEAD_START = 1990


def run(jobs):
    """The results of all jobs: losses by step, and the loss scale at the end."""
    command = [sys.executable, "-m", "tests.checkpoint_runs"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return json.loads(
        subprocess.run(
            command, input=json.dumps(jobs), env=environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    )


def main():
    from amp_migrate.verify import redirect, standin

    redirect.install()
    sys.path.insert(0, str(standin.DIRECTORY))
    warnings.simplefilter("ignore")
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:  # O1 patches its process for good
        json.dump(pool.map(train, json.load(sys.stdin), chunksize=1), sys.stdout)


def train(job):
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    side = {"apex O1": Amp, "apex O2": Amp, "apex FusedAdam": Amp, "apex FP16_Optimizer": Fp16Utils}
    trainer = side.get(f"{job['side']} {job['form']}", Native)(job["form"])
    if "resume" in job:
        trainer.load(torch.load(job["resume"], weights_only=False))
    losses = []
    for step in range(*job["steps"]):
        generator = torch.Generator().manual_seed(step)
        inputs = torch.randn(32, 12, generator=generator)
        targets = (inputs[:, :3] * inputs[:, 3:6]).cuda()
        losses.append(trainer.step(inputs.cuda(), targets))
    if "save" in job:
        torch.save(trainer.checkpoint(), job["save"], _use_new_zipfile_serialization=job.get("zip", True))
    return {"losses": losses, "scale": trainer.scale()}


def make_model():
    from torch import nn

    first = nn.Linear(12, 64)
    return nn.Sequential(first, nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)).cuda()


def decayed_and_other(model):
    """Two parameter groups, as most scripts have them."""
    params = list(model.parameters())
    return [
        {"params": [param for param in params if param.dim() > 1], "weight_decay": 0.01},
        {"params": [param for param in params if param.dim() == 1], "weight_decay": 0.0},
    ]


class Amp:
    """apex.amp, as its examples have it."""

    def __init__(self, form):
        import torch
        from apex import amp
        from apex.optimizers import FusedAdam

        self.amp = amp
        model = make_model()
        groups = decayed_and_other(model)
        optimizer = FusedAdam(groups, 3e-3) if form == "FusedAdam" else torch.optim.SGD(groups, 0.03, momentum=0.9)
        level = "O2" if form == "O2" else "O1"
        self.model, self.optimizer = amp.initialize(model, optimizer, opt_level=level, verbosity=0)
        amp._amp_state.loss_scalers[0]._unskipped = HEAD_START

    def step(self, inputs, targets):
        from torch.nn import functional

        loss = functional.mse_loss(self.model(inputs), targets)
        self.optimizer.zero_grad()
        with self.amp.scale_loss(loss, self.optimizer) as scaled_loss:
            scaled_loss.backward()
        self.optimizer.step()
        return loss.item()

    def checkpoint(self):
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "amp": self.amp.state_dict(),
        }

    def load(self, checkpoint):
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.amp.load_state_dict(checkpoint["amp"])

    def scale(self):
        return self.amp._amp_state.loss_scalers[0].loss_scale()


class Fp16Utils:
    """apex.fp16_utils, as its examples have it."""

    def __init__(self, form):
        import torch
        from apex.fp16_utils import FP16_Optimizer, network_to_half

        self.model = network_to_half(make_model())
        optimizer = torch.optim.SGD(decayed_and_other(self.model), 0.03, momentum=0.9)
        self.optimizer = FP16_Optimizer(
            optimizer, dynamic_loss_scale=True, dynamic_loss_args={"scale_window": WINDOW}, verbose=False
        )

    def step(self, inputs, targets):
        from torch.nn import functional

        loss = functional.mse_loss(self.model(inputs).float(), targets)
        self.optimizer.zero_grad()
        self.optimizer.backward(loss)
        self.optimizer.step()
        return loss.item()

    def checkpoint(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, checkpoint):
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])

    def scale(self):
        return self.optimizer.loss_scale


class Native:
    """What the scripts above become: the scaler's state under the key that amp's had, or "scaler" where none was."""

    def __init__(self, form):
        import torch

        self.model = make_model()
        groups = decayed_and_other(self.model)
        self.optimizer = (
            torch.optim.AdamW(groups, 3e-3) if form == "FusedAdam" else torch.optim.SGD(groups, 0.03, momentum=0.9)
        )
        self.key = "scaler" if form == "FP16_Optimizer" else "amp"
        self.scaler = torch.amp.GradScaler("cuda")
        self.scaler._init_growth_tracker = HEAD_START

    def step(self, inputs, targets):
        import torch
        from torch.nn import functional

        self.optimizer.zero_grad()
        with torch.amp.autocast("cuda"):
            loss = functional.mse_loss(self.model(inputs), targets)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()

    def checkpoint(self):
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            self.key: self.scaler.state_dict(),
        }

    def load(self, checkpoint):
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.scaler.load_state_dict(checkpoint[self.key])

    def scale(self):
        return self.scaler.get_scale()


if __name__ == "__main__":
    main()
