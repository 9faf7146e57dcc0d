"""A call of a module runs its forward, which may train the module itself."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

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
