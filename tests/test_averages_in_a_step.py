"""Gradients that are averaged over processes in the function that also trains: it is a step, and no averaging helper."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

HEAD = """\
import torch
import torch.distributed as dist
from apex import amp
from torch import nn

model = nn.Linear(12, 1).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")


"""
STEP = """\
loss = model(torch.randn(24, 12).cuda()).pow(2).mean()
optimizer.zero_grad()
with amp.scale_loss(loss, optimizer) as scaled_loss:
    scaled_loss.backward()
for param in model.parameters():
    dist.all_reduce(param.grad.data)
    param.grad.data DONE
optimizer.step()
"""
FORMS = {
    "a loop": "for step in range(8):\n{}",
    "a function": "def train():\n{}\n\nfor step in range(8):\n    train()\n",
    "a function with the loop": "def main():\n    for step in range(8):\n{}\n\nmain()\n",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("done", "refused"), [("/= dist.get_world_size()", False), (".clamp_(-1, 1)", True)])
def test_averaging_is_told_from_more(form, done, refused):
    by = 8 if "with the loop" in form else 4
    step = "".join(
        f"{' ' * by}{line}\n" for line in STEP.replace(" DONE", done if refused else f" {done}").splitlines()
    )
    findings = migrate_source((HEAD + FORMS[form].format(step)).encode(), Options(api="torch.amp")).findings
    assert ("AMP904" in [one.code for one in findings]) == refused
