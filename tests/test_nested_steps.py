"""A step in a nested function: the forward of its loss is in the function around, or in a caller of that."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SOURCE = """\
import torch
from torch import nn

model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()


def train(batches):
    for x, y in batches:
{step}


train([(torch.randn(8, 4).cuda(), torch.randint(2, (8,)).cuda())])
"""
STEPS = {
    "the loss around it": """
        loss = criterion(model(x), y)
        def step():
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        step()
    """,
    "the output around it": """
        output = model(x)
        def step():
            loss = criterion(output, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        step()
    """,
    "losses in a list": """
        losses = []
        losses.append(criterion(model(x), y))
        def step():
            optimizer.zero_grad()
            sum(losses).backward()
            optimizer.step()
        step()
    """,
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_the_forward_runs_under_autocast(step):
    result = migrate_source(SOURCE.format(step=step.rstrip()).encode(), Options(api="torch.amp"))
    output = result.output.decode()
    region = output.index("autocast(")
    assert result.status == "migrated", result.findings
    assert region < output.index("model(x)") < output.index("scaler.scale(")


def test_a_loss_that_no_caller_in_sight_makes_is_refused():
    step = """
        def step(loss):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        register(step)"""
    result = migrate_source(SOURCE.format(step=step).encode(), Options(api="torch.amp"))
    assert result.status != "migrated"
