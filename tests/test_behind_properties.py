"""An attribute is the same one behind a property that returns it."""

from __future__ import annotations

import re

import pytest

from amp_migrate import Options, migrate_source

PLAIN = """\
import torch
from torch import nn


class Run:
    def __init__(self):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.net = nn.Linear(6, 3).to(self.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self, batches):
        for x, y in batches:
            loss = nn.functional.cross_entropy(self.net(x.to(self.device)), y.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


Run().train([(torch.randn(8, 6), torch.randint(0, 3, (8,))) for _ in range(4)])
"""
STEP = """
    def step(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y)
        if self.mixed:
            with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        self.optimizer.step()
"""
APEX = """\
from apex import amp
from torch import nn


class Run:
    def __init__(self, model, optimizer, mixed):
        self.mixed = mixed
        self.optimizer = optimizer
        if mixed:
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        self.model = model
"""
RAISED = """\
from apex import amp
from torch import nn


class Run:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.mixed = False

    def half(self):
        self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")
        self.mixed = True
"""


def _behind(source: str, names: list[str]) -> str:
    """A program whose class keeps attributes of other names, and has properties of these."""
    for name in names:
        source = re.sub(rf"\bself\.{name} =", f"self._{name} =", source)
        source = re.sub(
            r"(class Run:\n)", rf"\1    @property\n    def {name}(self):\n        return self._{name}\n\n", source
        )
    return source


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (PLAIN, ["device"]),
        (PLAIN, ["net", "optimizer"]),
        (PLAIN, ["device", "net", "optimizer"]),
        (APEX + STEP, ["mixed"]),
        (APEX + STEP, ["mixed", "model", "optimizer"]),
        (RAISED + STEP, ["mixed"]),
    ],
)
def test_what_is_behind_properties_is_migrated_alike(source, names):
    options = Options(api="torch.amp")
    made = migrate_source(_behind(source, names).encode(), options)
    assert made.status == "migrated"
    plain = _behind(migrate_source(source.encode(), options).output.decode(), names)
    assert made.output.decode().replace("self._", "self.") == plain.replace("self._", "self.")


def test_what_holds_apex_is_not_followed_through_a_property():
    source = """\
from apex import amp


class Run:
    def __init__(self, model, optimizer):
        self._handle = amp
        self.model, self.optimizer = amp.initialize(model, optimizer, opt_level="O1")

    @property
    def handle(self):
        return self._handle

    def step(self, x):
        with self.handle.scale_loss(self.model(x).mean(), self.optimizer) as scaled_loss:
            scaled_loss.backward()
        self.optimizer.step()
"""
    assert [one.code for one in migrate_source(source.encode(), Options()).findings] == ["AMP903"]
