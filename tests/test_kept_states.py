"""What a model keeps of one forward for the next one: half in a region, and the forward of an evaluation is outside."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source
from tests.drawn.run import run

SCRIPT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = None
        self.fc = nn.Linear(8, 8)
        self.rnn = nn.GRU(8, 8, batch_first=True)

    def forward(self, x):
        {forward}
        return out


def evaluate(net, x):
    with torch.no_grad():
        return net(x.cuda()).mean()


net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    x = torch.randn(4, 5, 8)
    loss = net(x.cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
print("mean", evaluate(net, x).item())
"""
KEPT = "out, h = self.rnn(self.fc(x), self.state)\n        self.state = h.detach()"
KEPT_IN_FLOAT32 = KEPT + ".float()"
SET_BEFORE = "self.state = self.fc(x)\n        out, _ = self.rnn(self.state)"


def test_a_half_state_that_a_forward_in_float32_takes_is_refused():
    migrated = migrate_source(SCRIPT.format(forward=KEPT).encode(), Options())
    assert [one.code for one in migrated.findings] == ["AMP925"]


@pytest.mark.parametrize("forward", [KEPT_IN_FLOAT32, SET_BEFORE])
def test_a_float32_state_and_one_of_the_same_call_are_none(forward):
    migrated = migrate_source(SCRIPT.format(forward=forward).encode(), Options(api="torch.amp"))
    assert migrated.status == "migrated" and forward in migrated.output.decode()
    assert not run(migrated.output.decode()).error
