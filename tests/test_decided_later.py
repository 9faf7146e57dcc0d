"""A device that an object only holds a placeholder for until one of its methods is called: no condition for a scaler."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.critic = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
        self.optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.dev = {placeholder}

    def prepare(self, device="gpu"):
        if not self.dev == device:
            self.critic = self.critic.cuda() if device == "gpu" else self.critic.cpu()
            self.dev = device

    def update(self, obs, target):
        loss = nn.functional.mse_loss(self.critic(obs), target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


use_gpu = torch.cuda.is_available()
trainer = Trainer()
for step in range(20):
    trainer.prepare(device="gpu" if use_gpu else "cpu")
    obs = torch.randn(64, 8)
    obs = obs.cuda() if use_gpu else obs
    trainer.update(obs, obs.sum(1, keepdim=True))
"""


@pytest.mark.parametrize("placeholder", ['"cpu"', "None", "0"])
def test_the_scaler_goes_by_what_the_method_is_given(placeholder):
    result = migrate_source(SCRIPT.format(placeholder=placeholder).encode(), Options(api="torch.amp"))
    made = next(line for line in result.output.decode().splitlines() if "GradScaler(" in line)
    assert made == 'scaler = torch.amp.GradScaler("cuda", enabled=("gpu" if use_gpu else "cpu") == "gpu")'
