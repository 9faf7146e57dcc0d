"""Where DistributedDataParallel has a part of what is trained, the loss scales of the processes would part (AMP956)."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

TRAINING = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SETUP
for step in range(6):
    loss = (decoder(encoder(torch.randn(16, 8).cuda())) ** 2).mean()
    OPTIMIZER.zero_grad()
    loss.backward()
    OPTIMIZER.step()
"""
CLASS = """\
import torch
from torch import nn

class Trainer:
    def __init__(self, rank):
        self.encoder = nn.Linear(8, 8).cuda()
        self.decoder = nn.Linear(8, 8).cuda()
        self.encoder = nn.parallel.DistributedDataParallel(self.encoder, device_ids=[rank])
        WRAPPING
        self.optimizer = torch.optim.Adam([*self.encoder.parameters(), *self.decoder.parameters()])

    def step(self, x):
        loss = (self.decoder(self.encoder(x.cuda())) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

trainer = Trainer(0)
for step in range(6):
    trainer.step(torch.randn(16, 8))
"""
ENCODER = "encoder = DDP(nn.Linear(8, 8).cuda())\n"
DECODER = "decoder = nn.Linear(8, 8).cuda()\n"
BOTH = "optimizer = torch.optim.SGD(list(encoder.parameters()) + list(decoder.parameters()), lr=0.1)\n"
EACH = "optimizers = [torch.optim.SGD(encoder.parameters(), lr=0.1), torch.optim.SGD(decoder.parameters(), lr=0.1)]\n"
HALVES = "net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).cuda()\nencoder, decoder = net[0], net[1]\n"
AVERAGED = """
def average(params):
    for p in params:
        dist.all_reduce(p.grad.data)
        p.grad.data /= dist.get_world_size()
"""


def codes(source: str, dtype="float16") -> set[str]:
    return {one.code for one in migrate_source(source.encode(), Options(api="torch.amp", dtype=dtype)).findings}


def training(setup: str, optimizer="optimizer") -> str:
    source = TRAINING.replace("SETUP", setup).replace("    OPTIMIZER.zero_grad", f"    {optimizer}.zero_grad")
    return source.replace("    OPTIMIZER.step", f"    {optimizer}.step")


@pytest.mark.parametrize(
    "source",
    [
        training(ENCODER + DECODER + BOTH),
        training(ENCODER + DECODER + EACH + "first, second = optimizers\n", "second").replace(
            "    second.step()", "    first.step()\n    second.step()"
        ),
        training(ENCODER + DECODER + BOTH + "if dist.is_initialized():\n    encoder = DDP(encoder)\n"),
        CLASS.replace("WRAPPING", "self.decoder = nn.DataParallel(self.decoder)"),
    ],
)
def test_refused(source):
    assert codes(source) == {"AMP956"}
    assert "AMP956" not in codes(source, "bfloat16")


@pytest.mark.parametrize(
    "source",
    [
        training(ENCODER + "decoder = DDP(nn.Linear(8, 8).cuda())\n" + BOTH),
        training(DECODER + "encoder = nn.Linear(8, 8).cuda()\n" + BOTH),
        training(HALVES + "wrapped = DDP(net)\n" + BOTH),
        training(ENCODER + DECODER + BOTH + AVERAGED).replace(
            "    optimizer.step()", "    average(decoder.parameters())\n    optimizer.step()"
        ),
        CLASS.replace("WRAPPING", "self.decoder = nn.parallel.DistributedDataParallel(self.decoder)"),
    ],
)
def test_written(source):
    assert "AMP956" not in codes(source)
