"""The checker finds every mistake that people make in native AMP, and nothing in correct code."""

from __future__ import annotations

import textwrap

import pytest

from amp_migrate.check import check_module
from amp_migrate.facts import Facts
from amp_migrate.files.parse import parse

_SCRIPT = """
import torch
from torch.nn.utils import clip_grad_norm_

model = torch.nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
other = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = torch.nn.MSELoss()
scaler = torch.cuda.amp.GradScaler()
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()
"""
_REGION = """
with torch.cuda.amp.autocast():
    loss = criterion(model(x), y)
"""


def violations(step: str) -> list[str]:
    source = _SCRIPT.lstrip() + textwrap.indent(textwrap.dedent(step).lstrip(), "    ")
    return [found.kind for found in check_module(Facts(parse(source.encode())))]


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        (
            "clip of scaled gradients",
            "clip_grad_norm_(model.parameters(), 1.0)\nscaler.step(optimizer)\nscaler.update()",
        ),
        (
            "unscale_ twice",
            "scaler.unscale_(optimizer)\nscaler.unscale_(optimizer)\nscaler.step(optimizer)\nscaler.update()",
        ),
        ("unscale_ after step", "scaler.step(optimizer)\nscaler.unscale_(optimizer)\nscaler.update()"),
        ("step twice", "scaler.step(optimizer)\nscaler.step(optimizer)\nscaler.update()"),
        ("bare step", "optimizer.step()\nscaler.unscale_(optimizer)\nscaler.update()"),
        ("update without step", "scaler.update()\nscaler.step(optimizer)\nscaler.update()"),
        ("update without step", "if i % 2:\n    scaler.step(optimizer)\nscaler.update()"),
        (
            "backward after unscale_",
            "scaler.unscale_(optimizer)\nscaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
        ),
        ("backward without update", "scaler.step(optimizer)"),
        (
            "unscale_ twice",
            "if i % 2:\n    scaler.unscale_(optimizer)\n    clip_grad_norm_(model.parameters(), 1.0)\n"
            "scaler.unscale_(optimizer)\nscaler.step(optimizer)\nscaler.update()",
        ),
    ],
)
def test_mistakes_after_the_backward(kind, step):
    assert kind in violations(_REGION + "scaler.scale(loss).backward()\n" + step)


def test_backward_under_autocast():
    step = """
    with torch.cuda.amp.autocast():
        loss = criterion(model(x), y)
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    """
    assert violations(step) == ["backward under autocast"]


def test_criterion_on_half():
    step = """
    with torch.cuda.amp.autocast():
        output = model(x)
    loss = criterion(output, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    """
    assert violations(step) == ["criterion on half"]


@pytest.mark.parametrize(
    "step",
    [
        "scaler.step(optimizer)\nscaler.update()",
        "scaler.unscale_(optimizer)\nclip_grad_norm_(model.parameters(), 1.0)\nscaler.step(optimizer)\nscaler.update()",
        "if (i + 1) % 4 == 0:\n    scaler.step(optimizer)\n    scaler.update()",
        "if (i + 1) % 4 == 0:\n    scaler.unscale_(optimizer)\nif (i + 1) % 4 == 0:\n    scaler.step(optimizer)\n"
        "    scaler.update()",
        "clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())\nif i % 2:\n    scaler.step(optimizer)\n"
        "    scaler.update()",
        "scaler.step(optimizer)\nscaler.step(other)\nscaler.update()",
        "scaler.unscale_(optimizer)\nif not torch.isfinite(loss):\n    scaler.update()\n    continue\n"
        "scaler.step(optimizer)\nscaler.update()",
    ],
)
def test_correct_steps(step):
    assert violations(_REGION + "scaler.scale(loss).backward()\n" + step) == []


def test_names_that_a_change_unbinds():
    before = Facts(parse(b"from apex import amp\nimport os\nprint(amp, os)\n"))
    after = Facts(parse(b"import os\nprint(amp)\n"))
    assert {found.kind for found in check_module(after, before)} == {"unbound name", "unused import"}


def test_a_sigmoid_of_floats_is_no_half():
    step = """
    with torch.cuda.amp.autocast():
        p = torch.sigmoid(model(x).float())
    loss = torch.nn.functional.binary_cross_entropy(p, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    """
    assert violations(step) == []
