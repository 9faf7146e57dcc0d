"""Methods that are named before they are called: they are those of what they were named of, and nothing is lost."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = """\
for x in torch.randn(3, 8, 4).cuda():
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
"""
WRITTEN = """\
scaler = torch.cuda.amp.GradScaler()
for x in torch.randn(3, 8, 4).cuda():
    with torch.cuda.amp.autocast():
        loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def _migrated(source: str):
    result = migrate_source(source.encode(), Options())
    return result.status, result.output.decode()


@pytest.mark.parametrize(
    "source",
    [
        HEAD + LOOP + "    step = optimizer.step\n    loss.backward()\n    step()\n",
        HEAD + "step = optimizer.step\n" + LOOP + "    loss.backward()\n    step()\n",
        HEAD + LOOP + "    back = loss.backward\n    back()\n    optimizer.step()\n",
        HEAD + "step = getattr(optimizer, 'step')\n" + LOOP + "    loss.backward()\n    step()\n",
    ],
)
def test_they_are_called_anew(source):
    assert _migrated(source) == ("migrated", HEAD + WRITTEN)


def test_what_is_not_called_anew_keeps_its_name():
    named = "turn = world.step\nfor x in torch.randn(3, 8, 4).cuda():\n    turn()\n    loss = model(x).pow(2).mean()\n"
    source = (
        f"from worlds import world\n{HEAD}{named}    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    )
    status, output = _migrated(source)
    assert status == "migrated"
    assert "turn = world.step\n" in output and "    turn()\n" in output


def test_a_comment_beside_the_name_stays():
    status, output = _migrated(HEAD + "step = optimizer.step  # bound\n" + LOOP + "    loss.backward()\n    step()\n")
    assert status == "migrated"
    assert "step = optimizer.step  # bound\n" in output and "scaler.step(optimizer)" in output


@pytest.mark.parametrize(
    "source",
    [
        "step = optimizer.step\noptimizer = torch.optim.Adam(model.parameters())\n"
        + LOOP
        + "    loss.backward()\n    step()\n",
        "step = optimizer.step\nprint(step)\n" + LOOP + "    loss.backward()\n    step()\n",
        "step = optimizer.step\nif fast:\n    step = model.float\n" + LOOP + "    loss.backward()\n    step()\n",
        LOOP + "    back = loss.backward\n    loss = loss * 2\n    back()\n    optimizer.step()\n",
    ],
)
def test_of_another_object_they_are_not_called_anew(source):
    """It stays as it is, whatever becomes of the training."""
    _, output = _migrated(HEAD + source)
    assert "step()\n" in output.replace("optimizer.step()", "").replace("back()", "step()")
    assert "scaler.step(optimizer)" not in output or "back()" in output
