"""A forward through many modules, run under autocast by the training and without it by a validation."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

HEAD = """\
import torch
from torch import nn


class Layer0(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x)
"""
LAYER = """

class Layer{n}(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Layer{m}()

    def forward(self, x):
        return self.inner(x)
"""
REST = """

class Solver:
    def __init__(self):
        self.model = Layer{n}().cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def validate(self, x):
        print(torch.sum(self.model(x), dim=-1))

    def train(self, x):
        for _ in range(20):
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x), x)
            loss.backward()
            self.optimizer.step()
            self.validate(x)


Solver().train(torch.randn(32, 8).cuda())
"""


@pytest.mark.parametrize("depth", [0, 2, 4, 7])
def test_a_validation_stays_as_it_is_however_deep_its_model_is(depth):
    layers = "".join(LAYER.format(n=n + 1, m=n) for n in range(depth))
    output = migrate_source((HEAD + layers + REST.format(n=depth)).encode(), Options(api="torch.amp")).output.decode()
    assert "scaler.scale(loss)" in output
    assert "torch.sum(self.model(x), dim=-1)" in output
