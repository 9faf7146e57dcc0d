"""Half outputs that are kept in something and read again before NumPy: they get float32 whatever they are kept in."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source
from tests.drawn.run import run

SCRIPT = """\
import queue
from collections import namedtuple
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
last = None
Named = namedtuple("Named", "first second")


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@dataclass
class Record:
    first: torch.Tensor
    second: torch.Tensor = None


class Own:
    def __init__(self):
        self._value = None

    @property
    def value(self):
        return self._value

    @value.setter
    def value(self, given):
        self._value = given

    def set(self, **given):
        for name, one in given.items():
            setattr(self, name, one)


class Log:
    def __init__(self):
        self.kept = {}

    def add(self, **given):
        for name, one in given.items():
            self.kept.setdefault(name, []).append(one)


def keep(given):
    global last
    last = given


def outer(given):
    found = None

    def inner():
        nonlocal found
        found = given

    inner()
    return found


def second(first, second):
    return second


def named(**given):
    return given["out"]


net, own, log, waiting = nn.Linear(4, 4).cuda(), Own(), Log(), queue.Queue()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(2):
    x = torch.rand(64, 4).cuda()
    out = net(x)
    loss = (out - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    KEPT
    print("loss", np.linalg.norm(np.linalg.inv(it.detach().cpu().numpy()[:4] + np.eye(4))))
"""
KEPT = {
    "a NamedTuple": "it = Pair(x, out).second",
    "a part of a NamedTuple": "_, it = Pair(x, out)",
    "a namedtuple": "it = Named(x, out).second",
    "a part of a namedtuple": "_, it = Named(x, out)",
    "a dataclass": "it = Record(out).first",
    "a dataclass with a default": "it = Record(x, out).second",
    "a global": "keep(out)\n    it = last",
    "a variable of another function": "it = outer(out)",
    "a setter": "own.value = out\n    it = own.value",
    "attributes of any name": "own.set(out=out)\n    it = own.out",
    "keywords": "it = named(x=x, out=out)",
    "keywords in a log": "log.add(out=out)\n    it = log.kept['out'][-1]",
    "a dict of arguments": "it = second(**{'first': x, 'second': out})",
    "a dict of a zip": "it = dict(zip(['x', 'out'], [x, out]))['out']",
    "a dict of pairs": "pairs = [('x', x), ('out', out)]\n    it = dict(pairs)['out']",
    "a dict of a dict's pairs": "it = dict(dict(out=out).items())['out']",
    "a queue": "waiting.put(out)\n    it = waiting.get()",
}


@pytest.mark.parametrize("name", KEPT)
def test_it_is_float32_before_numpy(name):
    source = SCRIPT.replace("KEPT", KEPT[name])
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    assert result.output.decode().count(".float()") == 1
    before, after = run(source), run(result.output.decode())
    assert not before.error and not after.error, (before, after)
    assert after.losses == pytest.approx(before.losses, rel=0.05)


def test_a_namedtuple_in_a_forward_is_read_as_well():
    body = (
        "made = Named(x, out)\n    seen = torch.zeros(64, 4).cuda()\n    seen[made.first[:, 0] > 0.5] = made.second[:1]"
    )
    inside = "def scored(x):\n    out = net(x)\n    " + body + "\n    return seen.mean()\n\n\noptimizer ="
    source = SCRIPT.replace("optimizer =", inside, 1).replace("(out - x).pow(2).mean()", "scored(x)")
    output = migrate_source(source.replace("KEPT", "it = x").encode(), Options(api="torch.amp")).output.decode()
    assert "made.second[:1].to(seen.dtype)" in output


def test_what_else_is_kept_there_stays():
    source = SCRIPT.replace("KEPT", "own.set(out=x)\n    log.add(out=x)\n    it = Pair(x, out).first")
    assert ".float()" not in migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
