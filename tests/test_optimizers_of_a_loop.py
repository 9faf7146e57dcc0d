"""Optimizers that a loop steps, under the loop's name or another: each is unscaled and stepped, or the unit is refused."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).cuda().half()
optimizers = [torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[2].parameters())]
for _ in range(6):
    x, y = torch.randn(32, 8).cuda().half(), torch.randint(0, 3, (32,)).cuda()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
{clip}    {loop}
    model.zero_grad()
"""
CLIP = "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
LOOPS = {
    "its own name": "for opt in optimizers:\n        opt.step()",
    "another name": "for opt in optimizers:\n        one = opt\n        one.step()",
    "two names": "for opt in optimizers:\n        one = opt\n        two = one\n        two.step()",
    "a pair": "for opt, name in zip(optimizers, 'ab'):\n        one = opt\n        one.step()",
}


def migrated(loop, clip=""):
    return migrate_source(SCRIPT.format(loop=loop, clip=clip).encode(), Options(api="torch.amp"))


@pytest.mark.parametrize("name", LOOPS)
def test_each_is_stepped(name):
    result = migrated(LOOPS[name])
    assert result.status == "migrated", result.findings
    assert result.output.decode().count("scaler.step(") == 1


@pytest.mark.parametrize("name", LOOPS)
def test_each_is_unscaled_before_a_clip(name):
    result = migrated(LOOPS[name], CLIP)
    assert result.status == "migrated", result.findings
    head = LOOPS[name].split("\n")[0]
    assert f"    {head}\n        scaler.unscale_(opt)\n{CLIP}" in result.output.decode()


@pytest.mark.parametrize("step", ["opt.step()", "one = opt\n        one.step()"])
def test_what_has_no_name_before_the_clip_is_refused(step):
    result = migrated(f"for index in range(2):\n        opt = optimizers[index]\n        {step}", CLIP)
    assert [one.code for one in result.findings] == ["AMP904"]


def test_a_name_that_is_bound_again_behind_the_clip_is_not_used_before_it():
    source = """\
import torch
from torch import nn

class Trainer:
    def __init__(self, model, wraps):
        self.model, self.wraps = model.cuda(), wraps
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(self, x, labels):
        loss = nn.functional.cross_entropy(self.model(x.cuda()), labels.cuda())
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.2)
        update = self.optimizer
        if self.wraps:
            update = update.inner
        update.step()

Trainer(nn.Linear(6, 3), False).train(torch.randn(8, 6), torch.randint(0, 3, (8,)))
"""
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert [one.code for one in result.findings] == ["AMP904"]


BETWEEN = """\
import torch
import torch.nn.functional as F

model, pre = torch.nn.Linear(8, 8).cuda(), torch.nn.Linear(8, 8).cuda()
optimizer, other = torch.optim.AdamW(model.parameters()), torch.optim.AdamW(pre.parameters())
for epoch in range(3):
    for i, x in enumerate(loader):
        loss = F.mse_loss(model(x.cuda()), x.cuda())
        loss.backward()
        if {first}:
            optimizer.step()
            model.zero_grad()
    for i, x in enumerate(loader):
        loss = F.mse_loss(pre(x.cuda()), x.cuda())
        loss.backward()
        if {second}:
            other.step()
            pre.zero_grad()
"""


@pytest.mark.parametrize("first", ["i % 2 == 0", "k <= 1 or i % k == 0", "i % 2 == 0 or i + 1 == len(loader)"])
@pytest.mark.parametrize("second", ["i % 4 == 0", "not (i + 1) % k"])
def test_gradients_that_are_kept_over_the_steps_of_another_are_why(first, second):
    result = migrate_source(BETWEEN.format(first=first, second=second).encode(), Options())
    assert [(one.code, "steps in between" in one.message) for one in result.findings] == [("AMP904", True)]
