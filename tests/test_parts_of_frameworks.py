"""What is used of a framework for data alone does not run the training."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
import torch.nn as nn
IMPORTS

USE
net = nn.Linear(8, 10).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(numbers):
    loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
DATA = [
    ("from fairseq.data.encoders.fastbpe import fastBPE", "bpe = fastBPE(None)"),
    ("from fairseq.data import Dictionary", "words = Dictionary()"),
    ("from fairseq import data", "words = data.Dictionary()"),
    ("import fairseq.data", "words = fairseq.data.Dictionary()"),
]
TRAINING = [
    ("from fairseq.trainer import Trainer", "trainer = Trainer(None)"),
    ("from fairseq import data, optim", "words, other = data.Dictionary(), optim.build_optimizer()"),
    ("from fairseq.dataclass.utils import convert", "configuration = convert()"),
]


def _result(imports, use):
    source = SCRIPT.replace("IMPORTS", imports).replace("USE", use)
    return migrate_source(source.encode(), Options(api="torch.amp"))


@pytest.mark.parametrize(("imports", "use"), DATA)
def test_data_of_a_framework_trains_nothing(imports, use):
    result = _result(imports, use)
    assert "scaler.scale(loss).backward()" in result.output.decode(), result.findings


@pytest.mark.parametrize(("imports", "use"), TRAINING)
def test_anything_else_of_it_may(imports, use):
    assert [one.code for one in _result(imports, use).findings] == ["AMP960"]
