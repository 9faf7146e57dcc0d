"""Where a region begins and what it is around: not targets that are mixed before the forward, but a loop over steps."""

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


STEPS = """\
import torch
from torch import nn

decoder = nn.GRUCell(8, 16).cuda()
head = nn.Linear(16, 4).cuda()
optimizer = torch.optim.Adam([*decoder.parameters(), *head.parameters()])
criterion = nn.CrossEntropyLoss()
for i in range(10):
    inp, target = torch.rand(5, 3, 8).cuda(), torch.randint(0, 4, (5, 3)).cuda()
    hidden = torch.zeros(3, 16).cuda()
    loss = 0
    optimizer.zero_grad()
    for c in range(5):
        hidden = decoder(inp[c], hidden)
        {more}
        loss += criterion(head(hidden), target[c])
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("more", "is_around"),
    [
        ("pass", True),
        ("if c == 2:\n            hidden = hidden.detach()", True),
        ("print(c)", False),
        ("hidden = hidden.detach()\n        loss.backward()\n        loss = 0", False),
    ],
)
def test_a_region_is_around_the_steps_of_one_loss(tmp_path, more, is_around):
    """Inside of the loop each round would cast the weights again."""
    write_tree(tmp_path, {"train.py": STEPS.format(more=more).encode()})
    (result,) = migrate_project([tmp_path], Options(api="torch.amp"))
    around = '    with torch.amp.autocast("cuda"):\n        for c in range(5):\n'
    assert (around in result.output.decode()) == is_around


@pytest.mark.parametrize("alias", ["loss", "losses[0]", "losses[-1]"])
def test_another_name_of_a_loss_has_no_region(tmp_path, alias):
    script = (
        "import torch\nfrom torch import nn\n\nmodel = nn.Linear(8, 4).cuda()\n"
        "optimizer = torch.optim.Adam(model.parameters())\ntrain = True\n"
        "for x, y in [(torch.rand(4, 8), torch.rand(4, 4))]:\n    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())\n"
        f"    losses = [loss]\n    print(loss.item())\n    if train:\n        total = {alias}\n"
        "        optimizer.zero_grad()\n        total.backward()\n        optimizer.step()\n"
    )
    write_tree(tmp_path, {"train.py": script.encode()})
    (result,) = migrate_project([tmp_path], Options(api="torch.amp"))
    assert result.output.decode().count("autocast(") == 1
