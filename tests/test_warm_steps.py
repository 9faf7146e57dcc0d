"""Steps that bring a schedule forward, before the first backward, stay plain."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn


def train(args, model, loader, optimizer, scheduler):
    for _ in range(args.done):
        optimizer.step()
        scheduler.step()
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        if step % args.accumulate == 0:
            optimizer.step()
            scheduler.step()
            model.zero_grad()


def main(args, loader):
    model = nn.Linear(4, 2).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + n))
    {call}
"""


def found(call: str) -> tuple[str, str]:
    result = migrate_source(SCRIPT.format(call=call).encode(), Options(api="torch.amp"))
    return result.status, result.output.decode()


def test_a_training_that_runs_once_has_no_gradients_there():
    status, output = found("train(args, model, loader, optimizer, scheduler)")
    assert status == "migrated"
    assert "    for _ in range(args.done):\n        optimizer.step()" in output


@pytest.mark.parametrize("loop", ["for _ in range(2):", "while True:"])
def test_one_that_runs_again_may_have_some_of_the_last_round(loop):
    status, _ = found(f"{loop}\n        train(args, model, loader, optimizer, scheduler)")
    assert status != "migrated"
