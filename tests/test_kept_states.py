"""What a model keeps of one forward for the next one: half in a region, and the forward of an evaluation is outside."""

from __future__ import annotations

from pathlib import Path

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


HANDED_ON = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnns = nn.ModuleList([nn.LSTM(8, 8), nn.LSTM(8, 8)])
        self.out = nn.Linear(8, 3)

    def start(self, n):
        weight = next(self.parameters()).data
        return [(weight.new_zeros(1, n, 8), weight.new_zeros(1, n, 8)) for _ in self.rnns]

    def forward(self, x, states):
        found = []
        for rnn, state in zip(self.rnns, states):
            x, kept = rnn(x, state)
            found.append(kept)
        return self.out(x), found


def parted(h):
    if isinstance(h, (tuple, list)):
        return [tuple(parted(one)) if isinstance(one, tuple) else parted(one) for one in h]
    return h.detach()


def evaluate(x, states):
    with torch.no_grad():
        for _ in range(2):
            out, states = net(x, states)
            states = parted(states)
    return out.mean().item()


net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
states = net.start(4)
for _ in range(4):
    x = torch.randn(5, 4, 8).cuda()
    states = parted(states)
    out, states = net(x, states)
    loss = out.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
    print("loss", evaluate(x, {first}))
torch.save(net, "{path}")
net = torch.load("{path}", weights_only=False)
print("loss", evaluate(x, {first}))
"""


def test_a_state_that_an_evaluation_in_float32_begins_stays_in_float32(tmp_path: Path) -> None:
    source = HANDED_ON.format(first="net.start(4)", path=tmp_path / "net.pt")
    migrated = migrate_source(source.encode(), Options(api="torch.amp"))
    assert migrated.status == "migrated" and b".float()" not in migrated.output
    assert run(migrated.output.decode()).losses == pytest.approx(run(source).losses, abs=0.02)


def test_a_state_that_comes_out_of_the_training_is_none_of_these(tmp_path: Path) -> None:
    source = HANDED_ON.format(first="states", path=tmp_path / "net.pt")
    migrated = migrate_source(source.encode(), Options(api="torch.amp"))
    assert [one.code for one in migrated.findings] == ["AMP925"]
