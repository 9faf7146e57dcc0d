"""A device that a function gets by the stars of a call is not its default."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn

def match_loss(out, target, device="cpu"):
    target = target.float().to(device)
    return (out - target).pow(2).mean()

def batch_loss(outs, targets, **options):
    return torch.stack([match_loss(a, b, **options) for a, b in zip(outs, targets)]).mean()

class Trainer:
    def __init__(self, options):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.net = nn.Linear(4, 4).to(self.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.loss = batch_loss
        self.options = options

    def train(self, loader):
        for x, y in loader:
            out = self.net(x.to(self.device))
            loss = {loss}
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

Trainer(read()).train(loader)
"""


def codes(loss: str) -> list[str]:
    result = migrate_source(SCRIPT.format(loss=loss).encode(), Options(api="torch.amp"))
    return [one.code for one in result.findings if one.code > "AMP900"]


@pytest.mark.parametrize(
    "loss",
    [
        "match_loss(out, y, device=self.device)",
        "batch_loss(out, y, device=self.device)",
        "self.loss(out, y, device=self.device)",
        "self.loss(out, y, **self.options)",
        "batch_loss(out, y, **self.options)",
        "match_loss(out, y, **self.options)",
    ],
)
def test_a_call_may_give_a_device_by_its_stars(loss):
    assert codes(loss) == []


@pytest.mark.parametrize(
    "loss",
    [
        "match_loss(out, y)",
        "match_loss(out, y, 'cpu')",
        "match_loss(out, y, device='cpu')",
        "batch_loss(out, y)",
        "batch_loss(out, y, device='cpu')",
        "match_loss(out, y) + match_loss(out, y, **self.options)",
    ],
)
def test_a_loss_on_the_cpu_is_refused(loss):
    assert codes(loss) == ["AMP969"]
