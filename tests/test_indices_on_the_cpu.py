"""What takes an index computes with integers, on the CPU as well: a loss of smooth labels is computed on the GPU."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
import torch.nn as nn


class Smooth(nn.Module):
    def forward(self, inputs, targets):
        log_probs = inputs.log_softmax(1)
        smooth = INDEXED
        smooth = 0.9 * smooth.cuda() + 0.1 / 4
        return (-smooth * log_probs).mean(0).sum()


def train(loader, model, optimizer):
    criterion = Smooth()
    for images, targets in loader:
        optimizer.zero_grad()
        loss = criterion(model(images.cuda()), targets.cuda())
        loss.backward()
        optimizer.step()


def main(loader):
    model = nn.Linear(10, 4).cuda()
    train(loader, model, torch.optim.SGD(model.parameters(), lr=0.1))
"""
INDICES = [
    "torch.zeros(log_probs.size()).scatter_(1, targets.unsqueeze(1).cpu(), 1)",
    "torch.zeros(log_probs.size()).scatter_(1, targets.unsqueeze(1).data.cpu(), 1)",
    "torch.zeros(log_probs.size()).scatter_(1, targets.cpu().unsqueeze(1), 1)",
    "torch.zeros(log_probs.size()).scatter_(1, index=targets.cpu().view(-1, 1), value=1)",
    'torch.eye(4).index_select(0, targets.to("cpu"))',
    "torch.index_select(torch.eye(4), 0, targets.cpu())",
]
VALUES = [
    "torch.zeros(8, 4).scatter_(1, targets.unsqueeze(1), targets.unsqueeze(1).cpu())",
    "torch.zeros(8, 4).index_add_(0, targets, inputs.cpu())",
    "inputs.cpu().index_select(0, targets)",
    "torch.index_select(inputs.cpu(), 0, targets)",
    "targets.cpu() * 2",
]


@pytest.mark.parametrize("indexed", INDICES)
def test_an_index_may_leave_the_gpu(indexed):
    result = migrate_source(SCRIPT.replace("INDEXED", indexed).encode(), Options(api="torch.amp"))
    assert "scaler.scale(loss).backward()" in result.output.decode(), result.findings


@pytest.mark.parametrize("indexed", VALUES)
def test_what_may_be_half_may_not(indexed):
    result = migrate_source(SCRIPT.replace("INDEXED", indexed).encode(), Options(api="torch.amp"))
    assert [one.code for one in result.findings] == ["AMP969"]
