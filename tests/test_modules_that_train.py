"""A call of a module runs its forward, which may train the module itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import Options, migrate_project, migrate_source

SCRIPT = """\
import torch
from torch import nn, optim


class Base(nn.Module):
    def forward(self, x, opt):
        raise NotImplementedError


class Net(Base):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def METHOD(self, x, opt, step=0):
        opt.zero_grad()
        loss = ((self.fc(x) - x) ** 2).mean()
        loss.backward()
        opt.step()
        return loss.item()


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = optim.Adam(model.parameters(), lr=0.1)

    def run(self, inputs):
        return self.model(inputs, self.optimizer)


model = Net().cuda()
optimizer = optim.Adam(model.parameters(), lr=0.1)
for step in range(3):
    inputs = torch.randn(4, 4).cuda()
    CALL
"""
TRAINED = """\
        opt.zero_grad()
        with torch.amp.autocast("cuda"):
            loss = ((self.fc(x) - x) ** 2).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss.item()
"""
CALLS = {
    "by name": ("forward", "print(model(inputs, optimizer, step))", "model(inputs, optimizer, scaler, step)"),
    "its forward": ("forward", "model.forward(inputs, optimizer)", "model.forward(inputs, optimizer, scaler)"),
    "by keyword": ("forward", "model(inputs, opt=optimizer)", "model(inputs, opt=optimizer, scaler=scaler)"),
    "an element": ("forward", "[model][0](inputs, optimizer)", "[model][0](inputs, optimizer, scaler)"),
    "another method": ("fit", "model.fit(inputs, optimizer, step)", "model.fit(inputs, optimizer, scaler, step)"),
    "its own call": ("__call__", "model(inputs, optimizer, step)", "model(inputs, optimizer, scaler, step)"),
}


def migrated(method: str, call: str, script: str = SCRIPT):
    return migrate_source(script.replace("METHOD", method).replace("CALL", call).encode(), Options(api="torch.amp"))


@pytest.mark.parametrize(("method", "call", "written"), CALLS.values(), ids=CALLS)
def test_it_is_trained_as_by_any_method(method, call, written):
    result = migrated(method, call)
    assert (result.status, result.findings) == ("migrated", ())
    assert TRAINED in result.output.decode()
    assert written in result.output.decode()


@pytest.mark.parametrize("method", ["forward", "fit"])
def test_a_trainer_that_calls_it(method):
    script = SCRIPT.replace("self.model(", "self.model(" if method == "forward" else "self.model.fit(")
    result = migrated(method, "Trainer(model).run(inputs)", script)
    assert result.status == "migrated"
    assert TRAINED.replace("scaler.", "self.scaler.") in result.output.decode()


@pytest.mark.parametrize("wrapped", ["nn.DataParallel(model)", "nn.DataParallel(model, device_ids=[0, 1])"])
def test_threads_that_step(wrapped):
    result = migrated("forward", f"{wrapped}(inputs, optimizer)")
    assert (result.status, [finding.code for finding in result.findings]) == ("left", ["AMP912"])


def test_what_is_wrapped_and_does_not_train_itself():
    call = "nn.DataParallel(model)(inputs, optimizer)\n    model.fit(inputs, optimizer)"
    assert migrated("fit", call).status == "migrated"


TRAINER = """\
import torch
import torch.nn.functional as F
from torch import nn


class {name}:
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)
        self.cuda()
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.1)

    def forward(self, x, mask):
        return self.net(x).masked_fill(mask, -1e9)

    def fit(self, loader):
        for x, y in loader:
            out = {call}(x.cuda(), x.cuda()[:, :2] > 2)
            loss = F.cross_entropy(out, y.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
{more}"""
MAIN = """\
import torch
from nets import {made}

model = {made}()
model.fit([(torch.randn(8, 4), torch.randint(2, (8,)))])
"""


@pytest.mark.parametrize("call", ["self", "self.forward", "self.__call__"])
@pytest.mark.parametrize(
    ("name", "made", "more"),
    [
        ("Trainer(nn.Module)", "Trainer", ""),
        ("Base(nn.Module)", "Derived", "\n\nclass Derived(Base):\n    pass\n"),
    ],
)
def test_a_module_that_is_made_in_another_file_is_read(tmp_path, call, name, made, more):
    (tmp_path / "nets.py").write_text(TRAINER.format(name=name, call=call, more=more))
    (tmp_path / "main.py").write_text(MAIN.format(made=made))
    results = {Path(one.path).name: one for one in migrate_project(tmp_path)}
    assert ".float().masked_fill(mask, -1e9)" in results["nets.py"].output.decode()


def test_the_forward_of_a_class_that_is_made_in_another_file_gives_its_results(tmp_path):
    """`out` is the half output of the derived class, not what the base returns."""
    derived = """

class Derived(Base):
    def forward(self, x, mask):
        return self.net(x)
"""
    trainer = TRAINER.format(name="Base(nn.Module)", call="self", more=derived)
    trainer = trainer.replace(
        "return self.net(x).masked_fill(mask, -1e9)", "return torch.zeros(len(x), 2, device=x.device)", 1
    )
    trainer = trainer.replace(
        "loss = F.",
        "kept = torch.zeros(len(x), 2).cuda()\n            kept[out > 0] = out[out > 0]\n            loss = F.",
    )
    (tmp_path / "nets.py").write_text(trainer)
    (tmp_path / "main.py").write_text(MAIN.format(made="Derived"))
    results = {Path(one.path).name: one for one in migrate_project(tmp_path)}
    assert "kept[out > 0] = out[out > 0].to(kept.dtype)" in results["nets.py"].output.decode()
