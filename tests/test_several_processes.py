"""Weights that several processes train are refused for that, also where one of these runs in another file."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project

WORKER = """\
import torch
from torch import nn

def train(shared, optimizer):
    model = nn.Linear(4, 2).cuda()
    for i in range(5):
        loss = nn.functional.cross_entropy(model(torch.randn(8, 4).cuda()), torch.randint(0, 2, (8,)).cuda())
        optimizer.zero_grad()
        loss.backward()
        for mine, own in zip(model.parameters(), shared.parameters()):
            own._grad = mine.grad
        optimizer.step()
"""
MAIN = """\
import torch
import torch.multiprocessing as mp
from torch import nn
from worker import train

if __name__ == "__main__":
    shared = nn.Linear(4, 2).cuda()
    shared.share_memory()
    optimizer = torch.optim.Adam(shared.parameters())
    for _ in range(2):
        STARTED
"""


@pytest.mark.parametrize(
    "started",
    [
        "mp.Process(target=train, args=(shared, optimizer)).start()",
        "process = mp.Process(target=train, args=(shared, optimizer))\n        process.start()",
        "mp.spawn(train, args=(shared, optimizer))",
        "train(shared, optimizer)",
    ],
)
def test_of_another_file(tmp_path, started):
    (tmp_path / "worker.py").write_text(WORKER)
    (tmp_path / "main.py").write_text(MAIN.replace("STARTED", started))
    results = migrate_project([tmp_path], Options(api="torch.amp"))
    assert {found.code for one in results for found in one.findings} == {"AMP901", "AMP956"}
