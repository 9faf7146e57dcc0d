"""A pose that a loop composes from an identity is multiplied in float32: each round would add its rounding."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn


class Align(nn.Module):
    def __init__(self):
        super().__init__()
        self.motion = nn.Linear(8, 16)

    def forward(self, x):
        pose = START
        for _ in range(10):
            motion = self.motion(x).view(-1, 4, 4)
            pose = PRODUCT
        return pose


net = Align().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for x in torch.utils.data.DataLoader(torch.randn(8, 8), 4):
    loss = net(x.cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
EYE = "torch.eye(4, device=x.device)"


def output(start: str, product: str) -> str:
    return migrate_source(
        SCRIPT.replace("START", start).replace("PRODUCT", product).encode(), Options()
    ).output.decode()


@pytest.mark.parametrize("start", [f"{EYE}.expand(len(x), 4, 4)", f"{EYE}.repeat(len(x), 1, 1)", f"{EYE}[None]"])
@pytest.mark.parametrize("product", ["motion.matmul(pose)", "torch.matmul(pose, motion)", "motion @ pose"])
def test_a_chain_from_an_identity_is_float32(start, product):
    assert "enabled=False" in output(start, product)


@pytest.mark.parametrize(
    ("start", "product"),
    [
        ("x[:, :4, None].expand(-1, 4, 4)", "motion @ pose"),
        (f"{EYE}[None]", "motion @ motion"),
        (f"{EYE}[None]", "torch.relu(motion @ pose)"),
    ],
)
def test_what_is_no_such_chain_stays(start, product):
    assert "enabled=False" not in output(start, product)
