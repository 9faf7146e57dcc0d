"""A training that a function makes before another one has a scaler of its own, beside its optimizer (rule A1)."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn

net, part = nn.Linear(8, 8).cuda(), nn.Linear(8, 8).cuda()


def step(model, optimizer, x):
    loss = model(x.cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def pretrain(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches:
        {first}
    return {returned}


def main():
    before = pretrain(part)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in batches:
        {second}


main()
"""
OWN = """loss = model(x.cuda()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()"""


def migrated(**parts: str) -> str:
    result = migrate_source(SCRIPT.format(**parts).encode(), Options(api="torch.amp"))
    assert result.status == "migrated"
    return result.output.decode()


def test_the_scaler_stands_beside_the_optimizer_of_each():
    output = migrated(first=OWN, returned="None", second="step(net, optimizer, x)")
    made = 'optimizer = torch.optim.SGD({}.parameters(), lr=0.1)\n    scaler = torch.amp.GradScaler("cuda")\n'
    assert made.format("model") in output
    assert made.format("net") in output
    assert "def pretrain(model):" in output


@pytest.mark.parametrize(
    ("first", "returned", "second"),
    [
        ("step(model, optimizer, x)", "None", "step(net, optimizer, x)"),
        (OWN, "optimizer", "step(net, optimizer, x)\n        step(part, before, x)"),
    ],
)
def test_what_both_train_with_gets_the_scaler_from_where_both_are_called(first, returned, second):
    output = migrated(first=first, returned=returned, second=second)
    assert "def pretrain(model, scaler):" in output
