"""Training with `FP16_Optimizer`, in the ways in which projects spell it: the same meaning is read in all of them."""

from __future__ import annotations

import pytest

from amp_migrate import Options, Result, migrate_source

SCRIPT = """\
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--scale", type=float, default=0)
args = parser.parse_args()


class Trainer:
    def __init__(self):
        self.model = nn.Linear(10, 2).cuda()
        if args.fp16:
            from apex.optimizers import FP16_Optimizer, FusedAdam
            self.model.half()
            {wrapped}
        else:
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        if args.fp16:
            self.optimizer.backward(loss)
        else:
            loss.backward()
        self.optimizer.step()


trainer = Trainer()
for _ in range(3):
    trainer.step(torch.randn(8, 10).cuda(), torch.randint(0, 2, (8,)).cuda())
"""
FUSED = "FusedAdam(self.model.parameters(), lr=1e-3)"


def migrated(source: str) -> Result:
    return migrate_source(source.encode(), Options(api="torch.amp"))


def line_with(result: Result, text: str) -> str:
    assert result.output is not None, result.findings
    return next(line.strip() for line in result.output.decode().splitlines() if text in line)


def codes(result: Result) -> list[str]:
    return sorted(finding.code for finding in result.findings)


@pytest.mark.parametrize(
    "wrapped",
    [
        f"self.optimizer = FP16_Optimizer({FUSED})",
        f"self.optimizer = {FUSED}; self.optimizer = FP16_Optimizer(self.optimizer)",
        f"optimizer = {FUSED}; self.optimizer = FP16_Optimizer(optimizer)",
        f"inner = optimizer = {FUSED}; self.optimizer = FP16_Optimizer(optimizer)",
        f"self.inner = {FUSED}; self.optimizer = FP16_Optimizer(self.inner)",
    ],
)
def test_what_is_wrapped_goes_with_its_arm(wrapped):
    """It is made there only, under whichever name; the wrapper is bound where the plain arm binds its optimizer."""
    result = migrated(SCRIPT.format(wrapped=wrapped))
    assert line_with(result, "Adam(") == "self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)"
    assert line_with(result, "GradScaler(").endswith('GradScaler("cuda", enabled=False)')
    assert codes(result) == ["AMP160", "AMP161"]


@pytest.mark.parametrize(
    ("made", "code"),
    [
        ("scale = args.scale", None),
        ("self.scale = args.scale", None),
        ("scale = float(open('scale').read())", "AMP930"),
        ("scale = 1.0 if args.scale == 0 else args.scale", None),
        ("scale = 1.0\n            if args.scale != 0:\n                scale = args.scale", "AMP930"),
    ],
)
def test_a_setting_made_in_the_arm_is_there_for_the_scaler(made, code):
    """What only looks is moved with the wrapper. What does more, or stands in a block of its own, is a refusal."""
    name = "self.scale" if made.startswith("self") else "scale"
    wrapped = f"{made}\n            optimizer = {FUSED}\n            self.optimizer = FP16_Optimizer(optimizer, {name})"
    result = migrated(SCRIPT.format(wrapped=wrapped))
    assert (code in codes(result)) if code else (f"{name} = " in line_with(result, "args.scale"))
