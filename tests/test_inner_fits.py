"""A fit of a few tensors that a training runs for each batch has no use for a scaler that starts anew each time."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from amp_migrate import Options, migrate_project, migrate_source
from tests.unit_fixture import write_tree

SCRIPT = """\
import torch
from torch import nn


{fit}

model = nn.Linear(8, 3).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(5):
    points = torch.randn(8, 8).cuda()
    target = {called}
    loss = nn.functional.mse_loss(model(points), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BODY = """\
    shift = {tensor}
    shift.requires_grad = True
    optimizer = torch.optim.Adam([shift], lr=1e-2)
    for _ in range(20):
        loss = (points[:, :3] - shift).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return shift.detach()
"""
TENSORS = ["torch.zeros(8, 3).cuda()", "torch.zeros_like(points[:, :3])", "points[:, :3].detach().clone()"]


def shape(body: str, kind: str) -> tuple[str, str]:
    inside = body.replace("\n", "\n    ").rstrip()
    return {
        "a function": ("def fit(points):\n" + body, "fit(points)"),
        "a method": (f"class Fit:\n    def run(self, points):\n    {inside}\n", "Fit().run(points)"),
        "an object": (f"class Fit:\n    def __call__(self, points):\n    {inside}\n\n\nfit = Fit()\n", "fit(points)"),
    }[kind]


@pytest.mark.parametrize("tensor", TENSORS)
@pytest.mark.parametrize("kind", ["a function", "a method", "an object"])
def test_an_inner_fit_stays_in_float32(tensor, kind):
    fit, called = shape(BODY.format(tensor=tensor), kind)
    result = migrate_source(SCRIPT.format(fit=fit, called=called).encode(), Options(api="torch.amp"))
    output = result.output.decode()
    assert fit in output, result.findings
    assert output.count("scaler.step(optimizer)") == 1


def test_a_second_network_that_is_trained_in_a_step_is_no_fit():
    fit, called = shape(BODY.format(tensor="nn.Linear(3, 3).cuda()"), "a function")
    fit = fit.replace("[shift]", "shift.parameters()").replace("    shift.requires_grad = True\n", "")
    fit = fit.replace("- shift", "- shift(points[:, :3])").replace("shift.detach()", "shift(points[:, :3]).detach()")
    result = migrate_source(SCRIPT.format(fit=fit, called=called).encode(), Options(api="torch.amp"))
    assert fit not in result.output.decode() or result.status == "left"


TRAINER = """\
import torch
from torch import nn
from fits import Fit


class Trainer:
    def __init__(self):
        self.model = nn.Linear(8, 3).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.fit = Fit()

    def step(self, points):
        target = self.fit(points)
        loss = nn.functional.mse_loss(self.model(points), target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


trainer = Trainer()
for _ in range(5):
    trainer.step(torch.randn(8, 8).cuda())
"""


def test_an_inner_fit_of_another_file_stays_in_float32(tmp_path):
    """The class comes through a package, and an attribute holds the instance that is called."""
    fit, _ = shape(BODY.format(tensor=TENSORS[0]), "an object")
    fit = "import torch\n\n\n" + fit.replace("\n\n\nfit = Fit()", "")
    files = {"train.py": TRAINER, "fits/__init__.py": "from .shifts import Fit\n", "fits/shifts.py": fit}
    write_tree(tmp_path, {path: text.encode() for path, text in files.items()})
    results = {PurePath(one.path).name: one for one in migrate_project([tmp_path], Options(api="torch.amp"))}
    assert not results["shifts.py"].changed
    assert "self.scaler = torch.amp.GradScaler" in results["train.py"].output.decode(), results["train.py"]


def test_a_fit_that_others_call_out_of_sight_is_left(tmp_path):
    fit, _ = shape(BODY.format(tensor=TENSORS[0]), "a function")
    files = {"shifts.py": "import torch\n\n\n" + fit, "use.py": "from shifts import fit\n\nRUN = [fit]\n"}
    write_tree(tmp_path, {path: text.encode() for path, text in files.items()})
    results = {PurePath(one.path).name: one for one in migrate_project([tmp_path / "shifts.py"], Options())}
    assert [finding.code for finding in results["shifts.py"].findings] == ["AMP951"]
