"""A loss that is looked up by a part of its name: what does not have such a name is not meant, what has is read."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project, migrate_source
from tests.unit_fixture import write_tree

LOSSES = """\
import torch


def weighted_square_loss(output, target):
    return ((output - target) ** 2).mean()


def weighted_log_loss(output, target):
    return -(torch.log(torch.sigmoid(output) + 1e-8) * target).mean()
"""
TRAINING = """\
import sys
import torch
from torch import nn


def step(net, optimizer, kind, loader):
    for x, y in loader:
        loss = LOSS(net(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def train(kind, loader):
    net = nn.Linear(8, 10).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(3):
        step(net, optimizer, kind, loader)


train(sys.argv[1], torch.utils.data.DataLoader(numbers))
"""
KNOWN = [
    'globals()[f"weighted_{kind}_loss"]',
    'globals()["weighted_" + kind + "_loss"]',
    'globals()["weighted_%s_loss" % kind]',
    'globals()["weighted_{}_loss".format(kind)]',
]
OPEN = [
    "globals()[kind]",
    'globals()[f"{kind}"]',
    'globals()[kind.replace("a", "b")]',
    'globals()[f"unseen_{kind}"]',
]


@pytest.mark.parametrize("loss", KNOWN)
def test_a_loss_that_is_looked_up_is_read(loss):
    source = LOSSES + "\n\n" + TRAINING.replace("LOSS", loss)
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert "torch.log(torch.sigmoid(output.float()) + 1e-8)" in output
    assert "scaler.scale(loss).backward()" in output


@pytest.mark.parametrize("loss", KNOWN)
def test_a_star_import_brings_it_along(loss, tmp_path):
    training = TRAINING.replace("LOSS", loss).replace(
        "from torch import nn\n", "from torch import nn\nfrom losses import *\n"
    )
    write_tree(tmp_path, {"losses.py": LOSSES.encode(), "train.py": training.encode()})
    losses, train = migrate_project([tmp_path], Options(api="torch.amp"))
    assert b"torch.log(torch.sigmoid(output.float()) + 1e-8)" in losses.output
    assert b"scaler.scale(loss).backward()" in train.output


@pytest.mark.parametrize("loss", OPEN)
def test_what_may_be_the_training_itself_is_not(loss):
    source = LOSSES + "\n\n" + TRAINING.replace("LOSS", loss)
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert [one.code for one in result.findings] == ["AMP915"]


OBJECTS = """\
import torch
from torch import nn


class Entropy(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.criterion = nn.BCELoss()

    def forward(self, output, target):
        return self.criterion(torch.sigmoid(output), target)


class ByHand:
    def __init__(self, options):
        self.options = options

    def measure(self, output, target):
        return -(target * torch.log(torch.sigmoid(output) + 1e-8)).mean()

    def __call__(self, output, target):
        return self.measure(output, target)
"""
USER = """\
import importlib
import sys
import torch
from torch import nn
from torch.nn import functional as F
import losses
from losses import *


def train(kind, loader):
    net = nn.Linear(8, 10).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    MADE
    for x, y in loader:
        loss = LOSS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(sys.argv[1], torch.utils.data.DataLoader(numbers))
"""
MAKERS = [
    'eval("losses." + kind)(kind)',
    'eval(f"losses.{kind}")(kind)',
    "getattr(losses, kind)(kind)",
    "vars(losses)[kind](kind)",
    "globals()[kind](kind)",
    "eval(kind)",
    'getattr(importlib.import_module("losses"), kind)(kind)',
]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("called", ["", ".measure"])
@pytest.mark.parametrize("is_kept", [True, False])
def test_what_an_object_of_a_class_that_is_looked_up_does_is_read(tmp_path, maker, called, is_kept):
    made, used = (f"criterion = {maker}", "criterion") if is_kept else ("pass", maker)
    source = USER.replace("MADE", made).replace("LOSS", f"{used}{called}(net(x.cuda()), y.cuda())")
    write_tree(tmp_path, {"losses.py": OBJECTS.encode(), "train.py": source.encode()})
    losses, script = migrate_project([tmp_path / "losses.py", tmp_path / "train.py"], Options(api="torch.amp"))
    assert "GradScaler" in script.output.decode(), script.findings
    assert "torch.log(torch.sigmoid(output.float()) + 1e-8)" in losses.output.decode()
    if not called:
        assert "self.criterion(torch.sigmoid(output.float()), target)" in losses.output.decode()


LOOKED_UP = ["getattr(nn, kind)()", "getattr(F, kind)", "vars(nn)[kind]()", "nn.__dict__[kind]()"]
EVALUATED = ['eval("nn." + kind)()', 'eval(kind + "Loss")()']


def of_torch(maker, loss):
    source = USER.replace("MADE", f"criterion = {maker}").replace("LOSS", loss)
    return migrate_source(source.encode(), Options(api="torch.amp")).output.decode()


@pytest.mark.parametrize("maker", [*LOOKED_UP, *EVALUATED])
def test_a_criterion_of_torch_that_may_be_a_binary_cross_entropy(maker):
    output = of_torch(maker, "criterion(torch.sigmoid(net(x.cuda())), y.cuda())")
    assert "output = torch.sigmoid(net(x.cuda()).float())\n        loss = criterion(output, y.cuda())" in output


@pytest.mark.parametrize("maker", LOOKED_UP)
def test_a_criterion_of_torch_that_is_given_no_probabilities(maker):
    assert "    " * 3 + "loss = criterion(net(" in of_torch(maker, "criterion(net(x.cuda()), y.cuda())")


@pytest.mark.parametrize("maker", LOOKED_UP)
def test_what_is_called_with_one_argument_is_no_criterion(maker):
    loss = "criterion(torch.sigmoid(net(x.cuda()))).mean()"
    assert "    " * 3 + f"loss = {loss}" in of_torch(maker, loss)
