"""What is made of data alone, or without gradients, takes no loss to the CPU: a model on the GPU takes it back there."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source
from tests.drawn.run import CLOSE, run

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


def to_device(value, cuda):
    if cuda:
        return value.contiguous().cuda()
    ELSE


class Trainer:
    def __init__(self, loader, cuda):
        self.head = nn.Linear(10, 4)MOVED
        self.body = nn.Linear(10, 10).cuda()
        self.loader = loader
        self.cuda = cuda
        self.weight = torch.ones(100)

    def reweigh(self):
        for indices, images, targets in self.loader:
            with torch.no_grad():
                scores = F.softmax(self.head(images.cuda()), 1).max(1)[0]
                half = self.head(images.cuda()).max(1)[0]
            LATER

    def train(self):
        optimizer = torch.optim.SGD(self.head.parameters(), lr=0.1)
        for indices, images, targets in self.loader:
            targets = targets.cuda()
            NOW
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.reweigh()


Trainer(torch.utils.data.DataLoader(numbers), True).train()
"""
LOSS = "loss = F.cross_entropy(self.head(images.cuda()), targets)"
PLAIN = {"ELSE": "return value", "LATER": "pass", "MOVED": ".cuda()", "NOW": LOSS}
WEIGHTED = (
    "loss = (F.cross_entropy(self.head(images.cuda()), targets, reduction='none') * self.weight[indices].cuda()).mean()"
)
CHOSEN = "loss = F.cross_entropy(self.head(to_device(images, self.cuda)), targets)"
LABELS = "smooth = torch.zeros(8, 4).scatter_(1, targets.unsqueeze(1).cpu(), 1).cuda()"
SMOOTH = f"{LABELS}; loss = -(smooth * F.log_softmax(self.head(images.cuda()), 1)).mean()"
FEATURES = "loss = F.cross_entropy(self.head(FED), targets.cpu())"

BUFFER = "self.weight = torch.zeros(100, dtype=torch.uint8); self.weight[indices] = self.loader.weigh(images)CAST"

KEPT = {
    "integers of an unknown call": {"NOW": WEIGHTED, "LATER": BUFFER.replace("CAST", ".cpu().to(torch.uint8)")},
    "pseudo-labels": {"NOW": WEIGHTED, "LATER": "self.weight[indices] = scores.cpu()"},
    "agreement": {"NOW": WEIGHTED, "LATER": "self.weight[indices] = (scores > 0.7).float().cpu()"},
    "labels": {"NOW": SMOOTH},
    "straight back": {"NOW": LOSS.replace("images.cuda()", "self.body(images.cuda()).cpu().cuda()")},
    "without a GPU": {"NOW": CHOSEN, "ELSE": "return value.cpu()"},
    "else": {"NOW": CHOSEN, "ELSE": "else:\n        return value.cpu()"},
}
TAKEN = {
    "an unknown call": {"NOW": WEIGHTED, "LATER": BUFFER.replace("CAST", ".cpu().to(torch.float32)")},
    "half": {"NOW": WEIGHTED, "LATER": "self.weight[indices] = half.cpu()"},
    "loss": {"NOW": LOSS.replace("images.cuda()), targets", "images.cuda()).cpu(), targets.cpu()")},
    "chosen loss": {
        "NOW": "loss = F.cross_entropy(to_device(self.head(images.cuda()), self.cuda), targets)",
        "ELSE": "return value.cpu()",
    },
    "penalty": {"NOW": f"{LOSS}.cpu() + self.head.weight.norm().cpu()"},
    "head on the CPU": {"NOW": FEATURES.replace("FED", "self.body(images.cuda()).detach().cpu()"), "MOVED": ""},
    "with gradients": {"NOW": FEATURES.replace("FED", "self.body(images.cuda()).cpu()"), "MOVED": ""},
    "unknown call": {"NOW": f"{LOSS} * self.loader.weigh(images).cpu()"},
    "not about a device": {
        "NOW": "value = self.loader.weigh(images)\n"
        "            if self.large:\n                value = value.cuda()\n"
        f"            else:\n                value = value.cpu()\n            {LOSS} * value",
    },
}


def _migrated(changes):
    source = SCRIPT
    for mark, text in (PLAIN | changes).items():
        source = source.replace(mark, text)
    return migrate_source(source.encode(), Options(api="torch.amp"))


@pytest.mark.parametrize("changes", KEPT.values(), ids=KEPT)
def test_data_may_go_there(changes):
    result = _migrated(changes)
    assert "scaler.scale(loss).backward()" in result.output.decode(), result.findings


@pytest.mark.parametrize("changes", TAKEN.values(), ids=TAKEN)
def test_a_loss_may_not(changes):
    assert [one.code for one in _migrated(changes).findings] == ["AMP969"]


MEASURED = """\
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.net = nn.Linear(8, 4).cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.names = NAMES

    def run(self):
        for _ in range(3):
            x, y = torch.randn(16, 8).cuda(), torch.randint(0, 4, (16,)).cuda()
            output = self.net(x)
            losses = {}
            losses["loss"] = nn.functional.cross_entropy(output, y)
            self.optimizer.zero_grad()
            losses["loss"].backward()
            self.optimizer.step()
            self.measure(output, losses)
            print("loss", losses["loss"].item())

    def measure(self, output, losses):
        errors = [output.abs().mean(), (output ** 2).mean()]
        for LOOP:
            losses[name] = errors[i].cpu()


torch.manual_seed(0)
Trainer().run()
"""
NUMBERED = "i, name in enumerate(self.names)"


@pytest.mark.parametrize(
    "names, loop, is_loss",
    [
        ('["absolute", "squared"]', NUMBERED, False),
        ('("absolute", "squared")', "name, i in zip(self.names, range(2))", False),
        ('["absolute", "loss"]', NUMBERED, True),
        ("[]", "i, name in enumerate(sorted(losses))", True),
        ('["absolute"] + list(map(str, range(2)))', NUMBERED, True),
    ],
)
def test_a_metric_under_another_key_is_no_loss(names, loop, is_loss):
    script = MEASURED.replace("NAMES", names).replace("LOOP", loop)
    result = migrate_source(script.encode(), Options(api="torch.amp"))
    assert [one.code for one in result.findings] == (["AMP969"] if is_loss else [])
    if not is_loss:
        assert [*run(result.output.decode()).losses] == pytest.approx([*run(script).losses], abs=CLOSE)


PACKED = """\
import torch
import torch.nn as nn


class Packed:
    def __init__(self, *tensors):
        self.tensors = list(tensors)

    def cuda(self):
        self.tensors = [tensor.cuda() for tensor in self.tensors]
        return self

    def cpu(self):
        self.tensors = [tensor.cpu() for tensor in self.tensors]
        return self


model = nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = Packed(torch.randn(2, 4)).cuda()CALLED
    optimizer.zero_grad()
    loss = model(torch.cat(x.tensors)).pow(2).mean()
    loss.backward()
    optimizer.step()
    print("loss", loss.cpu().item())
"""


@pytest.mark.parametrize(("called", "refused"), [("", False), (".cpu()", True)])
def test_a_method_that_nobody_calls_takes_nothing_to_the_cpu(called, refused):
    source = PACKED.replace("CALLED", called)
    codes = [one.code for one in migrate_source(source.encode(), Options(api="torch.amp")).findings]
    assert ("AMP969" in codes) == refused
