"""Torch's DistributedDataParallel looks for unused parameters where a model drops what some of its layers return."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import Options
from amp_migrate.files.imports import forget
from amp_migrate.project import migrate_paths

MODEL = """\
import torch
from torch import nn


class Pooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(8, 8)

    def forward(self, x):
        return torch.tanh(self.dense(x[:, 0]))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.width = nn.Linear(8, 8), 8
        self.pooler = Pooler()

    def forward(self, x, short=False):
        x = torch.relu(self.layer(x))
        pooled = self.pooler(x)
        RETURN


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.classifier = nn.Linear(8, 3)

    def forward(self, x, labels):
        TAKE
        logits = self.classifier(sequence)
        loss = nn.functional.cross_entropy(logits.view(-1, 3), labels.view(-1))
        GIVE
"""
MAIN = """\
import torch
from apex.parallel import DistributedDataParallel as DDP

IMPORT


def main(loader):
    model = Tagger().cuda()
    model = DDP(model)
    optimizer = torch.optim.Adam(model.parameters())
    for x, labels in loader:
        loss = model(x.cuda(), labels.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
DROPPED = [
    ("return x, pooled", "sequence, _ = self.encoder(x)"),
    ("return (x, pooled)", "sequence, pooled = self.encoder(x, short=True)"),
    ("return x, pooled", "sequence = self.encoder(x)[0]"),
    ("return x, pooled", "(sequence,) = self.encoder(x)[:1]"),
    ("return x, pooled", "outputs = self.encoder(x)\n        sequence = outputs[0]"),
    ("return (x, pooled) + (x,)", "out = self.encoder(x)\n        sequence = out[0]\n        out = (x,) + out[2:]"),
    ("out = (x, pooled)\n        return out", "sequence, _ = self.encoder(x)"),
    ("out = (x, pooled,) + (x,)\n        return out", "sequence, _, _ = self.encoder(x)"),
    ("return pooled, x", "_, sequence = self.encoder(x)"),
    ("return pooled, x", "sequence = self.encoder(x)[1] * self.encoder.width"),
    ("return x", "sequence = self.encoder(x)"),
    ("if short:\n            return x, None\n        return x, pooled", "sequence, _ = self.encoder(x)"),
]
REACHING = [
    ("return x, pooled", "sequence, pooled = self.encoder(x)\n        sequence = sequence * pooled[:, None]"),
    ("return x, pooled", "sequence = sum(self.encoder(x))"),
    ("return x, pooled", "sequence = self.encoder(x)[self.index]"),
    ("return x, pooled", "sequence = self.encoder(x)[-1]"),
    ("return x, pooled", "out = self.encoder(x)\n        sequence = torch.cat([one for one in out])"),
    ("return x * pooled[:, None], pooled", "sequence, _ = self.encoder(x)"),
    ("x += pooled[:, None]\n        return x, pooled", "sequence, _ = self.encoder(x)"),
    ("out = [x]\n        out.append(pooled)\n        return out[0], out", "sequence, _ = self.encoder(x)"),
    ("self.pooled = pooled\n        return x, pooled", "sequence, _ = self.encoder(x)"),
    ("return x, pooled", "sequence, _ = self.encoder(x)\n        sequence = sequence + self.encoder.pooler(sequence)"),
    (
        "return x, pooled",
        "sequence, _ = self.encoder(x)\n        _, more = self.encoder(x)\n        sequence = sequence + more",
    ),
    ("yield x\n        yield pooled", "sequence, _ = self.encoder(x)"),
]


def wrapped(folder: Path, returned: str, taken: str, *, given: str = "return loss", in_one: bool) -> str:
    model = MODEL.replace("RETURN", returned).replace("TAKE", taken).replace("GIVE", given)
    (folder / "main.py").write_text(MAIN.replace("IMPORT", model if in_one else "from net import Tagger"))
    if not in_one:
        (folder / "net.py").write_text(model)
    forget()
    outputs = {Path(one.path).name: one.output.decode() for one in migrate_paths([folder], Options())}
    return next(line.strip() for line in outputs["main.py"].splitlines() if "DDP(model" in line)


@pytest.mark.parametrize("in_one", [True, False])
@pytest.mark.parametrize(("returned", "taken"), DROPPED)
def test_a_layer_whose_result_is_dropped(tmp_path: Path, returned: str, taken: str, in_one: bool) -> None:
    line = wrapped(tmp_path, returned, taken, in_one=in_one)
    assert line == "model = DDP(model, broadcast_buffers=False, find_unused_parameters=True)"


@pytest.mark.parametrize(("returned", "taken"), REACHING)
def test_a_layer_whose_result_is_used(tmp_path: Path, returned: str, taken: str) -> None:
    assert wrapped(tmp_path, returned, taken, in_one=False) == "model = DDP(model, broadcast_buffers=False)"


def test_what_a_script_is_given_as_well(tmp_path: Path) -> None:
    taken = "sequence, pooled = self.encoder(x)"
    assert "find" not in wrapped(tmp_path, "return x, pooled", taken, given="return loss, pooled", in_one=False)
