"""Losses that are computed in the call of what takes the step: they get a line of their own, under autocast."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

AGENT = """\
import torch
from torch import nn


def update(optimizer, loss, times=1):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


class Agent:
    def __init__(self):
        self.net = nn.Linear(4, 2).cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def loss_of(self, x):
        return self.net(x).pow(2).mean()

    def update(self, loss):
        return update(self.optimizer, loss)

    def learn(self, x):
        {call}


agent = Agent()
for x in torch.randn(5, 8, 4).cuda():
    agent.learn(x)
"""
CALLS = {
    "a method's": ("update(self.optimizer, self.loss_of(x))", "self.loss_of(x)"),
    "the network's": ("update(self.optimizer, self.net(x).pow(2).mean())", "self.net(x).pow(2).mean()"),
    "a loss of torch": (
        "update(self.optimizer, nn.functional.mse_loss(self.net(x), x[:, :2]))",
        "nn.functional.mse_loss(self.net(x), x[:, :2])",
    ),
    "by name": ("update(loss=self.loss_of(x), optimizer=self.optimizer)", "self.loss_of(x)"),
    "with others": ("update(self.optimizer, self.loss_of(x), 2)", "self.loss_of(x)"),
    "of the result": ("value = update(self.optimizer, self.loss_of(x))", "self.loss_of(x)"),
    "returned": ("return update(self.optimizer, self.loss_of(x))", "self.loss_of(x)"),
    "by a method": ("self.update(self.loss_of(x))", "self.loss_of(x)"),
}


@pytest.mark.parametrize("call, loss", CALLS.values(), ids=CALLS)
def test_a_loss_in_the_call_that_steps(call, loss):
    result = migrate_source(AGENT.format(call=call).encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    output = result.output.decode()
    assert f'        with torch.amp.autocast("cuda"):\n            total_loss = {loss}\n' in output
    assert "scaler.scale(loss).backward()" in output


def test_what_runs_before_a_loss_stays_before_it():
    call = "update(self.optimizer, self.loss_of(x), times=print(x))"
    output = migrate_source(AGENT.format(call=call).encode(), Options(api="torch.amp")).output.decode()
    assert "total_loss = self.loss_of(x)\n" in output
    call = "update(times=print(x), optimizer=self.optimizer, loss=self.loss_of(x))"
    result = migrate_source(AGENT.format(call=call).encode(), Options(api="torch.amp"))
    assert [finding.code for finding in result.findings] == ["AMP922"]
