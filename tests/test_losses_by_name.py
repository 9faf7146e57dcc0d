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
