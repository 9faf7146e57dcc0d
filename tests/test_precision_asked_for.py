"""A half type that values are compared with, or looked up by, chooses no precision."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
import torch.nn as nn

BEFORE

class Average:
    types = {torch.float16: float, torch.int64: int}

    def __init__(self):
        self.shadow = {}

    def register(self, name, value):
        INSIDE
        self.shadow[name] = value.detach().clone()


def train(loader):
    net = nn.Linear(8, 10).cuda()
    average = Average()
    for name, weight in net.named_parameters():
        average.register(name, weight)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
ASKED = [
    ("", "assert value.dtype in [torch.float16, torch.float32]"),
    ("", "assert value.dtype not in (torch.float16, torch.float32)"),
    ("", "assert value.dtype in {torch.bfloat16}"),
    ("FLOATS = (torch.half, torch.float32)", "assert value.dtype in FLOATS"),
    ("FLOATS = (torch.HalfTensor, torch.FloatTensor)", "assert isinstance(value, FLOATS)"),
    ("", "number = self.types[value.dtype](0)"),
    ("", "assert value.dtype in self.types"),
]
CHOSEN = [
    ("FLOATS = (torch.half, torch.float32)\nOTHER = FLOATS", "value = value.to(OTHER[0])"),
    ("FIRST, LAST = (torch.half, torch.float32)", "value = value.to(FIRST)"),
    ("", "value = value.to([torch.float16, torch.float32][len(name) % 2])"),
    ("FLOATS = (torch.half, torch.float32)", "value = value.to(FLOATS[0])"),
    ("FLOATS = (torch.half, torch.float32)", "for one in FLOATS: value = value.to(one)"),
    ("KINDS = FLOATS = (torch.half, torch.float32)", "value = value.to(KINDS[0])"),
    ("", "value = value.to(list(self.types)[0])"),
    ("", "value = value.to({'half': torch.float16}[name])"),
    ("", "value = value.to({torch.float16: name}[torch.float16], torch.half)"),
]


def _result(before, inside):
    source = SCRIPT.replace("BEFORE", before).replace("INSIDE", inside)
    return migrate_source(source.encode(), Options(api="torch.amp"))


@pytest.mark.parametrize(("before", "inside"), ASKED)
def test_a_type_that_is_asked_for_chooses_nothing(before, inside):
    result = _result(before, inside)
    assert "scaler.scale(loss).backward()" in result.output.decode(), result.findings


@pytest.mark.parametrize(("before", "inside"), CHOSEN)
def test_a_type_that_may_be_taken_does(before, inside):
    assert [one.code for one in _result(before, inside).findings] == ["AMP971"]
