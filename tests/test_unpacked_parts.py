"""Parts of a model that a constructor gets by a star: those of a tuple in sight are read, of anything else unknown."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn
from elsewhere import unseen


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(8, 8)

    def forward(self, x):
        own = torch.eye(len(x), dtype=torch.bool, device=x.device)
        return (self.query(x) @ x.t()).masked_fill(own, -1e9).softmax(1)


class Score(nn.Module):
    def forward(self, x):
        return x.mean()


class Net(nn.Module):
    def __init__(self, kind, base, score):
        super().__init__()
        self.base = base
        self.score = score

    def forward(self, x):
        return self.score(self.base(x))


def parts(kind, base):
    score = Score()
    return base, score


def listed(kind):
    found = []
    for one in unseen(kind):
        found.append(one)
    return found


def build(kind):
    MADE


net = build("net").cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(5):
    loss = net(torch.randn(6, 8).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SEEN = [
    "return Net(kind, *parts(kind, Base()))",
    "made = parts(kind, Base())\n    return Net(kind, *made)",
    "made = Base(), Score()\n    return Net(kind, *made)",
    "return Net(*(kind, Base(), Score()))",
    "made = (kind, Base(), Score())\n    return Net(*made)",
    "if kind:\n        return Net(kind, *parts(kind, Base()))\n    return Net(kind, *parts(kind, nn.Linear(8, 8)))",
]
UNSEEN = [
    "return Net(kind, *listed(kind))",
    "return Net(kind, *unseen(kind))",
    "return Net(*unseen(kind), *parts(kind, Base()))",
    "made = parts(kind, Base()) if kind else unseen(kind)\n    return Net(kind, *made)",
    "return Net(kind, *reversed(parts(kind, Base())))",
]


def _result(made):
    return migrate_source(SCRIPT.replace("MADE", made).encode(), Options(api="torch.amp"))


@pytest.mark.parametrize("made", SEEN)
def test_parts_of_a_tuple_are_read(made):
    result = _result(made)
    assert "(self.query(x) @ x.t()).float().masked_fill(own, -1e9)" in result.output.decode(), result.findings


@pytest.mark.parametrize("made", UNSEEN)
def test_other_parts_are_not_known(made):
    assert [one.code for one in _result(made).findings] == ["AMP951"]
