"""A criterion that takes gradients is kept out of autocast, also where its name may mean something out of sight as well."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SOURCE = """\
import torch
from torch import autograd, nn


class Penalty(nn.Module):
    def forward(self, net, x):
        x = x.clone().requires_grad_(True)
        scores = net(x)
        (g,) = autograd.grad(scores.sum(), x, create_graph=True)
        return scores.mean() + ((g.norm(2, dim=1) - 1) ** 2).mean()


class Trainer:
    def __init__(self, net, criterion):
        self.net = net
        self.criterion = criterion

    def loss(self, x):
        return {loss}
{beside}

net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()
optimizer = torch.optim.Adam(net.parameters())
trainer = Trainer(net, Penalty())
for _ in range(3):
    loss = trainer.loss(torch.randn(4, 8).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NOTHING = ""
FUNCTION = "\n\ndef make(net, criterion):\n    return Trainer(net, criterion)\n"
METHOD = "\n    @classmethod\n    def of(cls, net, criterion):\n        return cls(net, criterion)\n"
OPTION = "\n\nif __debug__:\n    import other\n\n    Trainer(nn.Linear(8, 1).cuda(), other.Criterion())\n"


@pytest.mark.parametrize("beside", [NOTHING, FUNCTION, METHOD, OPTION], ids=["alone", "function", "method", "import"])
@pytest.mark.parametrize("loss", ["self.criterion(self.net, x)", "self.criterion.forward(self.net, x)"])
def test_a_criterion_that_takes_gradients_stays_out_of_autocast(loss, beside):
    result = migrate_source(SOURCE.format(loss=loss, beside=beside).encode(), Options(api="torch.amp"))
    assert [one.code for one in result.findings] == ["AMP968"]
