"""Several programs ask flags of their own whether to use a GPU, and give them to one trainer."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

TRAINER = """\
import torch
from torch import nn
from torch.nn import functional as F


class Trainer:
    def __init__(self, cuda, model, optimizer):
        self.cuda = cuda
        self.model = model
        self.optimizer = optimizer

    def train(self, batches):
        for x, y in batches:
            if self.cuda:
                x, y = x.cuda(), y.cuda()
            self.optimizer.zero_grad()
            loss = F.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
"""
PROGRAM = """\


def NAME():
    cuda = torch.cuda.is_available()
    model = nn.Linear(8, 1)
    if cuda:
        model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(cuda=cuda, model=model, optimizer=optimizer)
    trainer.train([(torch.randn(4, 8), torch.ones(4, 1))])
"""
AGREE = {
    "the same": [],
    "another name": [("cuda = ", "on_gpu = "), ("if cuda", "if on_gpu"), ("cuda=cuda", "cuda=on_gpu")],
    "turned": [("if cuda:\n        model", "if not cuda:\n        pass\n    else:\n        model")],
    "by position": [("cuda=cuda, model=model, optimizer=optimizer", "cuda, model, optimizer")],
}
DIFFER = {
    "another value": [("cuda=cuda", "cuda=True")],
    "the opposite": [("if cuda:", "if not cuda:")],
    "twice": [("    trainer =", "    Trainer(False, model, optimizer).train([])\n    trainer =")],
    "not given": [("Trainer(cuda=cuda, model=model", "Trainer(model=model, **dict(cuda=cuda)")],
}


def migrated(changes):
    other = PROGRAM
    for old, new in changes:
        assert old in other
        other = other.replace(old, new)
    script = TRAINER + PROGRAM.replace("NAME", "one") + other.replace("NAME", "two")
    return migrate_source(script.encode(), Options(api="torch.amp"))


@pytest.mark.parametrize("name", AGREE)
def test_what_the_trainer_is_given_is_the_flag_of_each(name):
    result = migrated(AGREE[name])
    assert 'GradScaler("cuda", enabled=cuda)' in result.output.decode(), result.findings


@pytest.mark.parametrize("name", DIFFER)
def test_what_the_trainer_is_given_may_be_another(name):
    assert [one.code for one in migrated(DIFFER[name]).findings] == ["AMP966"]
