"""A schedule is drawn with an optimizer of weights that nothing else names: its steps have no gradients, and stay."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source
from tests.drawn.run import CLOSE, run

SCRIPT = """\
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

WEIGHTS = [nn.Parameter(torch.zeros(1))]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(x)


net = Net().cuda()


def draw():
    {weights}
    optimizer = torch.optim.SGD({given}, lr=1.0)
    schedule = LambdaLR(optimizer, lambda step: 1.0 / (step + 1))
    rates = []
    for step in range(4):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


def train():
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(4):
        x = torch.randn(4, 8).cuda()
        loss = net(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item())


torch.manual_seed(0)
draw()
train()
"""


def _migrated(weights: str, given: str):
    source = SCRIPT.format(weights=weights, given=given)
    return source, migrate_source(source.encode(), Options(api="torch.amp"))


@pytest.mark.parametrize(
    ("weights", "given"),
    [
        ("dummy = nn.Linear(1, 1)", "dummy.parameters()"),
        ("dummy = torch.nn.Linear(1, 1)", "params=dummy.parameters()"),
        ("dummy = Net()", "list(dummy.parameters())"),
        ("weights = nn.Linear(1, 1).parameters()", "weights"),
        ("weights = [torch.zeros(1, requires_grad=True)]", "weights"),
        ("pass", "[nn.Parameter(torch.zeros(1))]"),
        ("pass", "Net().parameters()"),
    ],
)
def test_its_steps_stay(weights, given):
    source, result = _migrated(weights, given)
    output = result.output.decode()
    assert output.count("scaler.step(optimizer)") == 1 and "        optimizer.step()\n        schedule" in output
    assert "autocast" not in output.partition("def train")[0]
    before, after = run(source), run(output)
    assert not after.error and after.losses[0] == pytest.approx(before.losses[0], rel=CLOSE)


@pytest.mark.parametrize(
    ("weights", "given"),
    [
        ("pass", "net.parameters()"),
        ("dummy = net", "dummy.parameters()"),
        ("dummy = nn.Sequential(net)", "dummy.parameters()"),
        ("dummy = nn.Linear(1, 1); net.add_module('other', dummy)", "dummy.parameters()"),
        ("dummy = build()", "dummy.parameters()"),
        ("from elsewhere import dummy", "dummy.parameters()"),
        ("weights = []; weights += net.parameters()", "weights"),
    ],
)
def test_weights_that_others_may_have_are_no_such(weights, given):
    _, result = _migrated(weights, given)
    assert not result.changed


def test_no_optimizer_of_a_training_is_one():
    source = SCRIPT.format(weights="dummy = nn.Linear(1, 1)", given="dummy.parameters()")
    source = source.replace("    rates = []", "    dummy(torch.ones(1, 1)).mean().backward()\n    rates = []")
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert "scaler" not in output or output.count("scaler.step(optimizer)") == 2
