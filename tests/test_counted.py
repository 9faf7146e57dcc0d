"""Whole numbers that are counted stay exact where they take the dtype of what autocast has made half."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(8, 8)

    def forward(self, x):
        h = self.base(x)
        return h * {counted}


net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for x in torch.utils.data.DataLoader(torch.randn(8, 8), 4):
    loss = nn.functional.mse_loss(net(x.cuda()), x.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FAR = [
    "torch.arange(h.size(0)).type_as({h})",
    "torch.arange(5000)[:, None].to({h})",
    "torch.arange(h.size(0), device=h.device).view(-1, 1).to({h}.dtype)",
    "torch.arange(1, h.size(0) + 1, dtype={h}.dtype)",
    "torch.linspace(0, 4999, 5000).to(device=h.device, dtype={h}.dtype)",
]
NEAR = [
    "torch.arange(h.size(0)).type_as(x)",
    "torch.arange(2048).type_as(h)",
    "torch.linspace(-1, 1, h.size(0)).to(h)",
    "torch.arange(h.size(0)).to(h.device)",
]


@pytest.mark.parametrize("counted", FAR)
def test_far_numbers_are_counted_in_float32(counted):
    output = migrate_source(SCRIPT.format(counted=counted.format(h="h")).encode(), Options()).output.decode()
    assert counted.format(h="h.float()") in output


@pytest.mark.parametrize("counted", NEAR)
def test_what_half_holds_is_as_it_was(counted):
    assert counted in migrate_source(SCRIPT.format(counted=counted).encode(), Options()).output.decode()
