"""The points of a picture are made in float32, also where one expression makes their numbers and them."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.locate, self.see = nn.Linear(8, 6), nn.Conv2d(3, 3, 1)

    def forward(self, x, picture):
        {lines}


net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for x, picture in loader:
    loss = net(x.cuda(), picture.cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TOGETHER = [
    "grid = F.affine_grid(self.locate(x).view(-1, 2, 3), picture.size())\n        return F.grid_sample(picture, grid)",
    "return F.grid_sample(picture, F.affine_grid(self.locate(x).view(-1, 2, 3), picture.size()))",
]


@pytest.mark.parametrize("lines", TOGETHER)
def test_one_expression_is_taken_apart(lines):
    result = migrate_source(SCRIPT.format(lines=lines).encode(), Options())
    output = result.output.decode()
    assert "        theta = self.locate(x).view(-1, 2, 3)\n        with" in output, result.findings
    assert "F.affine_grid(theta.float(), picture.size())" in output


def test_what_is_sampled_by_a_layer_is_said():
    lines = "return F.grid_sample(self.see(picture), F.affine_grid(self.locate(x).view(-1, 2, 3), picture.size()))"
    result = migrate_source(SCRIPT.format(lines=lines).encode(), Options())
    assert lines in result.output.decode()
    assert "AMP188" in [finding.code for finding in result.findings]
