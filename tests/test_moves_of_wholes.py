"""Who trains parts of a model that goes to the GPU as a whole trains there, wherever that model is made."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn
from elsewhere import Base, make_net


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Net(Base):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)


class Box:
    def __init__(self):
        self.head = nn.Linear(8, 4)

    def cuda(self):
        return self


class Trainer:
    def __init__(self):
        self.net = MADE
        self.optimizer = torch.optim.SGD(self.net.head.parameters(), lr=0.1)

    def train(self, loader):
        for x, y in loader:
            loss = nn.functional.cross_entropy(self.net.head(x), y)
            update(self.optimizer, loss)


Trainer().train(torch.utils.data.DataLoader(numbers))
"""


def _result(made):
    return migrate_source(SCRIPT.replace("MADE", made).encode(), Options(api="torch.amp"))


@pytest.mark.parametrize(
    "made", ["Net().cuda()", 'Net().to("cuda")', "nn.DataParallel(Net()).cuda()", "make_net().cuda()"]
)
def test_a_whole_takes_its_parts_along(made):
    result = _result(made)
    assert "scaler.scale(loss).backward()" in result.output.decode(), result.findings


@pytest.mark.parametrize("made", ["Net()", 'Net().to("cpu")', "Box().cuda()", "make_net()"])
def test_what_moves_nothing_shows_no_gpu(made):
    assert not _result(made).changed
