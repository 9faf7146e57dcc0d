"""A scheduler whose name says that it belongs to an optimizer: what made it decides."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn, optim
from torch.optim import lr_scheduler
from store import load


class Model:
    def __init__(self, net, loader):
        self.net = net.cuda()
        self.loader = loader
        self.model_optimizer, self.model_optimizer_scheduler = self.init_optimizers()

    def init_optimizers(self):
        optimizer = optim.SGD(self.net.parameters(), lr=0.1)
        {scheduler}
        return optimizer, scheduler

    def train(self):
        for epoch in range(3):
            for x, y in self.loader:
                loss = nn.functional.cross_entropy(self.net(x.cuda()), y.cuda())
                self.model_optimizer.zero_grad()
                loss.backward()
                self.model_optimizer.step()
            self.model_optimizer_scheduler.step()


Model(nn.Linear(3, 2), []).train()
"""


@pytest.mark.parametrize(
    "scheduler, is_known",
    [
        ("scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=3)", True),
        ("scheduler = lr_scheduler.StepLR(optimizer, step_size=3)", True),
        ("scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0)", True),
        ("scheduler = load(optimizer)", False),
        ("scheduler = load(self.net)", False),
    ],
)
def test_one_of_two_returned_values_is_a_scheduler(scheduler, is_known):
    result = migrate_source(SCRIPT.format(scheduler=scheduler).encode(), Options())
    codes = {finding.code for finding in result.findings}
    assert ("AMP952" in codes, result.status) == (not is_known, "migrated" if is_known else "left")
