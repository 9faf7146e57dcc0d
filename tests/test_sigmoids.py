"""The sigmoid behind a binary cross entropy is found beside a mask, of whatever size that is."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source
from tests.drawn.run import run

SCRIPT = """\
import torch
from torch import nn


class YOLOLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.bce_loss = nn.BCELoss()

    def forward(self, prediction, targets):
        x = torch.sigmoid(prediction[..., 0])
        mask, tx = self.get_target(targets, SIZE)
        mask, tx = mask.cuda(), tx.cuda()
        return self.bce_loss(x * mask, tx * mask)

    def get_target(self, target, n):
        mask = torch.zeros(8, n, requires_grad=False)
        tx = torch.zeros(8, n, requires_grad=False)
        for b in range(8):
            for t in range(target.shape[1]):
                if target[b, t].sum() == 0:
                    continue
                gi = int(target[b, t, 1] * 4)
                mask[b, gi] = 1
                tx[b, gi] = target[b, t, 1] * 4 - gi
        return mask, tx


device = torch.device("cuda")
net = nn.Linear(16, 8).to(device)
criterion = YOLOLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(10):
    images, labels = torch.randn(8, 16).to(device), torch.rand(8, 3, 5)
    optimizer.zero_grad()
    loss = criterion(net(images).view(8, 4, 2), labels)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("size", ["prediction.size(1)", "prediction.shape[1]", "len(prediction[0])", "4"])
def test_a_mask_is_not_made_of_what_it_has_the_size_of(size):
    result = migrate_source(SCRIPT.replace("SIZE", size).encode(), Options(api="torch.amp"))
    assert "x = torch.sigmoid(prediction[..., 0].float())" in result.output.decode(), result.findings


CONTAINER = """\
from collections import OrderedDict

import torch
from torch import nn

{layers}
net = net.cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(10):
    x, y = torch.randn(8, 16).cuda(), torch.rand(8, 1).cuda()
    optimizer.zero_grad()
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
"""
ENDS = [
    "net = nn.Sequential(nn.Linear(16, 1), nn.Sigmoid())",
    "last = nn.Sigmoid()\nnet = nn.Sequential(nn.Linear(16, 1), last)",
    "layers = [nn.Linear(16, 1)]\nlast = nn.Sigmoid()\nlayers.append(last)\nnet = nn.Sequential(*layers)",
    'net = nn.Sequential(OrderedDict([("in", nn.Linear(16, 1)), ("out", nn.Sigmoid())]))',
    'layers = OrderedDict([("in", nn.Linear(16, 1)), ("out", nn.Sigmoid())])\nnet = nn.Sequential(layers)',
    'layers = OrderedDict()\nlayers["in"] = nn.Linear(16, 1)\nlayers["out"] = nn.Sigmoid()\nnet = nn.Sequential(layers)',
    'layers = OrderedDict({"in": nn.Linear(16, 1)})\nlayers["out"] = nn.Sigmoid()\nnet = nn.Sequential(layers)',
]
OTHER_ENDS = [
    'layers = OrderedDict([("a", nn.Linear(16, 1)), ("b", nn.Linear(1, 1))])\nlayers["a"] = nn.Sigmoid()\n'
    "net = nn.Sequential(layers)",
    "layers = [nn.Linear(16, 1), nn.Linear(1, 1)]\nlayers[0] = nn.Sigmoid()\nnet = nn.Sequential(*layers)",
]


@pytest.mark.parametrize("layers", ENDS)
def test_the_last_module_of_a_container_is_found_however_that_is_filled(layers):
    result = migrate_source(CONTAINER.format(layers=layers).encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings


@pytest.mark.parametrize("layers", OTHER_ENDS)
def test_a_sigmoid_that_is_not_the_last_module_is_none(layers):
    result = migrate_source(CONTAINER.format(layers=layers).encode(), Options(api="torch.amp"))
    assert [one.code for one in result.findings] == ["AMP967"]


ADDED = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, deep):
        super().__init__()
        MADE

    def forward(self, x):
        return self.head(x).squeeze(1)


class Trainer:
    def __init__(self):
        self.net = Net(True).cuda()
        self.bce = nn.BCELoss()
        self.real = torch.ones(4).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def forward(self, x):
        self.pred, self.other = self.net(x), self.net(-x)

    def backward(self):
        self.loss_real = self.bce(self.pred, self.real)
        self.loss_fake = self.bce(self.other, 1 - self.real)
        self.loss = self.loss_real + self.loss_fake
        self.loss.backward()

    def step(self, x):
        self.forward(x)
        self.optimizer.zero_grad()
        self.backward()
        self.optimizer.step()


trainer = Trainer()
for _ in range(10):
    trainer.step(torch.randn(4, 8).cuda())
"""
SIGMOIDS_LAST = {
    "by name": "self.head = nn.Sequential(nn.Linear(8, 1))\n        self.head.add_module('out', nn.Sigmoid())",
    "of a local": "h = nn.Sequential()\n        h.add_module('fc', nn.Linear(8, 1))\n"
    "        h.add_module('out', nn.Sigmoid())\n        self.head = h",
    "appended": "self.head = nn.Sequential(nn.Linear(8, 1))\n        self.head.append(nn.Sigmoid())",
    "in an arm": "self.head = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())\n        if deep:\n"
    "            self.head.add_module('more', nn.Linear(1, 1))\n            self.head.add_module('out', nn.Sigmoid())",
}
OTHERS_LAST = {
    "something else": "self.head = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())\n"
    "        self.head.add_module('out', nn.Linear(1, 1))",
    "in place of another": "self.head = nn.Sequential(nn.Linear(8, 1), nn.Linear(1, 1))\n"
    "        self.head.add_module('0', nn.Sigmoid())",
    "first": "self.head = nn.Sequential(nn.Linear(1, 1))\n        self.head.insert(0, nn.Sigmoid())",
    "elsewhere": "self.head = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())\n        self.grow()\n\n"
    "    def grow(self):\n        self.head.append(nn.Linear(1, 1))",
}


@pytest.mark.parametrize("name", SIGMOIDS_LAST)
def test_a_sigmoid_that_is_added_ends_a_container(name):
    result = migrate_source(ADDED.replace("MADE", SIGMOIDS_LAST[name]).encode(), Options(api="torch.amp"))
    output = result.output.decode()
    assert "self.head[-1](self.head[:-1](x).float())" in output, result.findings
    assert "        self.loss_real = self.bce(self.pred.float(), self.real)\n" in output  # no region is left around it


@pytest.mark.parametrize("name", OTHERS_LAST)
def test_what_is_added_may_be_no_sigmoid(name):
    result = migrate_source(ADDED.replace("MADE", OTHERS_LAST[name]).encode(), Options(api="torch.amp"))
    assert [one.code for one in result.findings] == ["AMP967"]


CHOSEN = """\
import torch
from torch import nn


class Loss(nn.Module):
    def __init__(self, squared=True):
        super().__init__()
        self.squared = squared
        if self.squared:
            self.loss = nn.MSELoss()
        else:
            self.loss = nn.BCELoss()

    def forward(self, output, target):
        return self.loss(output, target)


class Makers:
    @staticmethod
    def plain():
        return Loss(False)


class Trainer:
    def __init__(self, opt):
        self.net = nn.Linear(8, 1).cuda()
        self.criterion = MADE
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.criterion(self.net(x), y)
        loss.backward()
        self.optimizer.step()


def main(opt):
    trainer = Trainer(opt)
    for _ in range(10):
        trainer.step(torch.randn(4, 8).cuda(), torch.ones(4, 1).cuda())
"""


@pytest.mark.parametrize(
    ("made", "is_met"),
    [
        ("Loss()", False),
        ("Loss(True)", False),
        ("Loss(squared=True)", False),
        ("Loss(False)", True),
        ("Loss(opt.squared)", True),
        ("Loss() if opt.squared else Loss(False)", True),
        ("Loss(**vars(opt))", True),
        ("Makers.plain()", True),
    ],
)
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_loss_that_nobody_makes_is_not_met(made, is_met, is_whole):
    script = CHOSEN.replace("MADE", made)
    if "Makers" not in made:
        script = script[: script.index("class Makers")] + script[script.index("class Trainer") :]
    if not is_whole:  # whoever makes the trainer is not in sight
        script, is_met = script[: script.index("def main")], True
    result = migrate_source(script.encode(), Options(api="torch.amp"))
    assert ("AMP967" in [one.code for one in result.findings]) is is_met, result.findings


SEVERAL_USES = """\
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--loss", default="bce")
args = parser.parse_args()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 4), nn.Sigmoid()).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
bce = nn.BCELoss()
MADE
for step in range(3):
    x = torch.randn(16, 8)
    y = torch.randint(0, 2, (16, 4)).cuda().float()
    pred = net(x.cuda())
    loss = TAKEN
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
"""


@pytest.mark.parametrize(
    ("made", "taken"),
    [
        ("if args.loss == 'mse':\n    bce = nn.MSELoss()", "bce(pred, y)"),
        ("if args.loss == 'mse':\n    bce = F.mse_loss", "bce(pred, y)"),
        ("if args.loss == 'mse':\n    bce = lambda p, t: (p - t).pow(2).mean()", "bce(pred, y)"),
        ("if args.loss == 'mse':\n    bce = getattr(nn, 'MSELoss')()", "bce(pred, y)"),
        ("table = {'bce': bce, 'mse': nn.MSELoss()}", "table[args.loss](pred, y)"),
        ("", "(bce if args.loss == 'bce' else nn.MSELoss())(pred, y)"),
        ("def made(name):\n    return bce if name == 'bce' else nn.MSELoss()", "made(args.loss)(pred, y)"),
        ("other = nn.BCELoss(reduction='none')", "bce(pred, y) + other(pred, y).mean()"),
        ("other = nn.BCELoss(weight=torch.rand(4).cuda())", "(bce if args.loss == 'mse' else other)(pred, y)"),
        ("", "bce(pred, y) + nn.BCELoss()(pred, y)"),
        ("", "bce(pred, y) + bce.forward(pred, y)"),
        ("", "bce(pred, y) + F.binary_cross_entropy(pred, y)"),
        ("", "bce(pred, y) + F.mse_loss(pred, y)"),
    ],
)
def test_every_use_of_the_probabilities_keeps_its_meaning(made, taken):
    source = SEVERAL_USES.replace("MADE", made).replace("TAKEN", taken)
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    for loss in ("bce", "mse"):
        before, after = (run(text, ("--loss", loss)) for text in (source, result.output.decode()))
        assert after.losses == pytest.approx(before.losses, rel=1e-3), after


NAMED_TWICE = """\
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid()).cuda()
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
bce = nn.BCELoss()


def train(rounds):
    for _ in range(rounds):
        outputs = critic(torch.randn(4, 8).cuda())
        loss = bce(outputs.flatten(), torch.ones(4).cuda())
        score = outputs
        outputs = critic(torch.randn(4, 8).cuda())
        loss = loss + bce(outputs.flatten(), torch.zeros(4).cuda())
        print("loss", LOGGED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(3)
"""


@pytest.mark.parametrize(("logged", "kept"), [("loss.item()", "outputs"), ("score.mean().item()", "outputs.sigmoid()")])
def test_a_name_that_nothing_reads_may_hold_logits(logged, kept):
    source = NAMED_TWICE.replace("LOGGED", logged)
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    output = result.output.decode()
    assert f"    score = {kept}\n" in output and "BCEWithLogitsLoss" in output, result.findings
    assert run(output).losses == pytest.approx(run(source).losses, rel=1e-2)


NAMED_ARGUMENTS = """\
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = MODEL.cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
bce = nn.BCELoss()
for _ in range(3):
    x, y = torch.randn(4, 8).cuda(), torch.ones(4, 1).cuda()
    pred = MADE
    loss = LOSS
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
"""


@pytest.mark.parametrize("loss", ["bce(target=y, input=pred)", "F.binary_cross_entropy(target=y, input=pred)"])
@pytest.mark.parametrize(
    ("model", "made"),
    [
        ("nn.Linear(8, 1)", "torch.sigmoid(net(x))"),
        ("nn.Linear(8, 1)", "net(x).sigmoid()"),
        ("nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())", "net(x)"),
    ],
)
def test_the_input_of_a_loss_may_be_named_behind_its_target(loss, model, made):
    source = NAMED_ARGUMENTS.replace("MODEL", model).replace("MADE", made).replace("LOSS", loss)
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    assert run(result.output.decode()).losses == pytest.approx(run(source).losses, rel=1e-3)
