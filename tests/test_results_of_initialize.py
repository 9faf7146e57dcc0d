"""`amp.initialize` returns the models alone where it is given no optimizer."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from apex import amp
from torch import nn


def prepare(model, trains):
    optimizer = {optimizer}
    {result}


model, optimizer = prepare(nn.Linear(8, 3).cuda(), True)
for x in loader:
    loss = model(x.cuda()).pow(2).mean()
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""
ADAM = "torch.optim.Adam(model.parameters())"
RETURNED = "return amp.initialize(model, optimizer)"
NAMED = "both = amp.initialize(model, optimizer)\n    return both"


@pytest.mark.parametrize("result", [RETURNED, NAMED])
def test_both_are_returned_where_there_is_an_optimizer(result):
    migrated = migrate_source(SCRIPT.format(optimizer=ADAM, result=result).encode(), Options())
    assert migrated.status == "migrated" and "model, optimizer" in migrated.output.decode()


@pytest.mark.parametrize("result", [RETURNED, NAMED])
def test_what_is_returned_without_an_optimizer_is_refused(result):
    migrated = migrate_source(SCRIPT.format(optimizer=f"{ADAM} if trains else None", result=result).encode(), Options())
    assert [one.code for one in migrated.findings] == ["AMP902"]
    assert "optimizer may be None" in migrated.findings[0].message
