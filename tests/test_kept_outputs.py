"""An output that one method keeps as an attribute, and another makes the loss of: its forward runs under autocast."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.gen = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 32)).cuda()
        self.opt = torch.optim.Adam(self.gen.parameters(), lr=1e-4)

    def forward(self):
        z = torch.randn(4, 8).cuda()
        {keep}

    def update(self):
        self.forward()
        loss = nn.functional.mse_loss(self.fake, torch.zeros_like(self.fake))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


trainer = Trainer()
for step in range(30):
    trainer.update()
"""
KEPT = {
    "itself": ["self.fake = self.gen(z)"],
    "named first": ["out = self.gen(z)", "self.fake = out"],
    "a part": ["out = self.gen(z)", "self.fake = out[:2]"],
    "computed with": ["out = self.gen(z)", "self.fake = torch.tanh(out)"],
    "one of two": ["out = self.gen(z)", "self.fake, self.rest = out.chunk(2)"],
    "and said": ["out = self.gen(z)", "self.fake = out", "print(self.fake.shape)"],
}


@pytest.mark.parametrize("name", KEPT)
def test_the_forward_of_a_kept_output_runs_under_autocast(name):
    source = SCRIPT.format(keep="\n        ".join(KEPT[name]))
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    first = KEPT[name][0]
    assert f'        with torch.amp.autocast("cuda"):\n            {first}\n' in output


POOLED = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    x = torch.randn(4, 8).cuda()
    rows = torch.randint(4, (4,)).cuda()
    pooled = torch.zeros(4, 8).cuda()
    out = model(x)
    {write}
    loss = pooled.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "write",
    [
        "pooled.index_add_(0, rows, out)",
        "pooled.scatter_add_(0, rows[:, None].expand(4, 8), out)",
        "pooled.copy_(out)",
        "pooled.masked_scatter_(pooled == 0, out)",
        "pooled[rows] = out",
        "pooled += out",
        "pooled = pooled.index_add(0, rows, out)",
    ],
)
def test_the_forward_of_an_output_that_is_written_runs_under_autocast(write):
    output = migrate_source(POOLED.format(write=write).encode(), Options(api="torch.amp")).output.decode()
    assert '    with torch.amp.autocast("cuda"):\n        out = model(x)\n' in output
