"""Gradients of what no optimizer holds stay scaled: who reads them is refused (AMP904)."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def norms(module):
    for p in module.parameters():
        print(p.grad.norm().item())


net, extra = Net().cuda(), nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(HELD, lr=0.1)
for x in torch.utils.data.DataLoader(torch.randn(8, 8), 4):
    loss = extra(net(x.cuda())).pow(2).mean()
    optimizer.zero_grad()
    extra.zero_grad()
    loss.backward()
    READ
    optimizer.step()
"""
LOOP = "for p in {}.parameters():\n        print(p.grad.norm().item())"
PARTS = '[{"params": net.body.parameters()}, {"params": net.head.parameters(), "lr": 0.2}]'


def codes(held: str, read: str) -> list[str]:
    source = SCRIPT.replace("HELD", held).replace("READ", read)
    return [one.code for one in migrate_source(source.encode(), Options()).findings]


@pytest.mark.parametrize(
    ("held", "read"),
    [
        ("net.parameters()", "print(extra.weight.grad.norm().item())"),
        ("net.parameters()", LOOP.format("extra")),
        ("net.parameters()", "nn.utils.clip_grad_norm_(extra.parameters(), 1.0)"),
        ("net.head.parameters()", LOOP.format("net")),
        (PARTS, "print(extra.bias.grad.abs().max().item())"),
    ],
)
def test_refused(held, read):
    assert "AMP904" in codes(held, read)


@pytest.mark.parametrize(
    ("held", "read"),
    [
        ("net.parameters()", "print(net.body.weight.grad.norm().item())"),
        ("net.parameters()", LOOP.format("net.head")),
        ("net.parameters()", "norms(net)"),
        ("[*net.parameters(), *extra.parameters()]", LOOP.format("extra")),
        (PARTS, LOOP.format("net")),
        (PARTS, "print(net.head.weight.grad.norm().item())"),
    ],
)
def test_written(held, read):
    assert "AMP904" not in codes(held, read)
