"""|a|^2 - 2ab + |b|^2 is float32 as a whole: the product, and the squares beside it."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SOURCE = """\
import torch
import torch.nn.functional as F
from torch import nn

net = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)


def distances(f):
    inner = -2 * torch.matmul(f, f.t())
    squares = {squares}
    return squares + inner + squares.t()


for step in range(3):
    x = torch.randn(6, 8).cuda()
    loss = F.relu(distances(net(x))).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("squares", "written"),
    [
        ("torch.sum(torch.mul(f, f), dim=1, keepdim=True)", "torch.mul(f.float(), f)"),
        ("(f * f).sum(1, keepdim=True)", "(f.float() * f).sum(1, keepdim=True)"),
        ("f.mul(f).sum(1).unsqueeze(1)", "f.float().mul(f)"),
        ("(f**2).sum(1, keepdim=True)", "squares = (f**2).sum(1, keepdim=True)"),  # autocast runs it in float32
    ],
)
def test_the_squares_beside_the_product_are_float32(squares, written):
    output = migrate_source(SOURCE.format(squares=squares).encode(), Options(api="torch.amp")).output.decode()
    assert "inner = -2 * torch.matmul(f.float(), f.t().float())" in output
    assert written in output
