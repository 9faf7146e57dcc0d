"""Where a region begins: not before the statements that only mix targets made without gradients."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

SCRIPT = """\
import torch
from torch import nn


def train(loader):
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for x, u, t in loader:
        x, u, t = x.cuda(), u.cuda(), t.cuda()
        with torch.no_grad():
            guess = {guess}
        {mixed}
        out = model(torch.cat([x, u]))
        loss = -(torch.log_softmax(out, dim=1) * targets).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train([(torch.rand(8, 16), torch.rand(8, 16), torch.rand(8, 4))])
"""
SOFT = "torch.softmax(model(u), dim=1)"
OUTSIDE = {
    "joined": (SOFT, "targets = torch.cat([t, guess])"),
    "mixed": (SOFT, "both = torch.cat([t, guess])\n        targets = 0.7 * both + 0.3 * both.flip(0)"),
    "of class numbers": ("model(u).argmax(1)", "targets = torch.cat([t, torch.eye(4).cuda()[guess]])"),
}
INSIDE = {
    "half": ("model(u)", "targets = torch.cat([t, guess / (guess.abs() + 1e-8)])"),
    "a product": (SOFT, "targets = torch.cat([t, guess @ torch.rand(4, 4).cuda()])"),
    "sharpened by a power": (SOFT, "targets = torch.cat([t, guess ** 2])"),
}


def first_line_inside(tmp_path, parts) -> str:
    guess, mixed = parts
    write_tree(tmp_path, {"train.py": SCRIPT.format(guess=guess, mixed=mixed).encode()})
    (result,) = migrate_project([tmp_path], Options(api="torch.amp"))
    assert result.status == "migrated", result
    lines = result.output.decode().splitlines()
    return lines[lines.index('        with torch.amp.autocast("cuda"):') + 1].strip()


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_region_begins_with_the_forward(tmp_path, name):
    assert first_line_inside(tmp_path, OUTSIDE[name]).startswith("out = ")


@pytest.mark.parametrize("name", INSIDE)
def test_what_autocast_changes_is_inside(tmp_path, name):
    assert first_line_inside(tmp_path, INSIDE[name]).startswith("targets = ")
