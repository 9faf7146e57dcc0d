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
