"""The sigmoid behind a binary cross entropy is found beside a mask, of whatever size that is."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn


class YOLOLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.bce_loss = nn.BCELoss()

    def forward(self, prediction, targets):
        x = torch.sigmoid(prediction[..., 0])
        mask, tx = self.get_target(targets, SIZE)
        mask, tx = mask.cuda(), tx.cuda()
        return self.bce_loss(x * mask, tx * mask)

    def get_target(self, target, n):
        mask = torch.zeros(8, n, requires_grad=False)
        tx = torch.zeros(8, n, requires_grad=False)
        for b in range(8):
            for t in range(target.shape[1]):
                if target[b, t].sum() == 0:
                    continue
                gi = int(target[b, t, 1] * 4)
                mask[b, gi] = 1
                tx[b, gi] = target[b, t, 1] * 4 - gi
        return mask, tx


device = torch.device("cuda")
net = nn.Linear(16, 8).to(device)
criterion = YOLOLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(10):
    images, labels = torch.randn(8, 16).to(device), torch.rand(8, 3, 5)
    optimizer.zero_grad()
    loss = criterion(net(images).view(8, 4, 2), labels)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("size", ["prediction.size(1)", "prediction.shape[1]", "len(prediction[0])", "4"])
def test_a_mask_is_not_made_of_what_it_has_the_size_of(size):
    result = migrate_source(SCRIPT.replace("SIZE", size).encode(), Options(api="torch.amp"))
    assert "x = torch.sigmoid(prediction[..., 0].float())" in result.output.decode(), result.findings


CONTAINER = """\
from collections import OrderedDict

import torch
from torch import nn

{layers}
net = net.cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(10):
    x, y = torch.randn(8, 16).cuda(), torch.rand(8, 1).cuda()
    optimizer.zero_grad()
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
"""
ENDS = [
    "net = nn.Sequential(nn.Linear(16, 1), nn.Sigmoid())",
    "last = nn.Sigmoid()\nnet = nn.Sequential(nn.Linear(16, 1), last)",
    "layers = [nn.Linear(16, 1)]\nlast = nn.Sigmoid()\nlayers.append(last)\nnet = nn.Sequential(*layers)",
    'net = nn.Sequential(OrderedDict([("in", nn.Linear(16, 1)), ("out", nn.Sigmoid())]))',
    'layers = OrderedDict([("in", nn.Linear(16, 1)), ("out", nn.Sigmoid())])\nnet = nn.Sequential(layers)',
    'layers = OrderedDict()\nlayers["in"] = nn.Linear(16, 1)\nlayers["out"] = nn.Sigmoid()\nnet = nn.Sequential(layers)',
    'layers = OrderedDict({"in": nn.Linear(16, 1)})\nlayers["out"] = nn.Sigmoid()\nnet = nn.Sequential(layers)',
]
OTHER_ENDS = [
    'layers = OrderedDict([("a", nn.Linear(16, 1)), ("b", nn.Linear(1, 1))])\nlayers["a"] = nn.Sigmoid()\n'
    "net = nn.Sequential(layers)",
    "layers = [nn.Linear(16, 1), nn.Linear(1, 1)]\nlayers[0] = nn.Sigmoid()\nnet = nn.Sequential(*layers)",
]


@pytest.mark.parametrize("layers", ENDS)
def test_the_last_module_of_a_container_is_found_however_that_is_filled(layers):
    result = migrate_source(CONTAINER.format(layers=layers).encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings


@pytest.mark.parametrize("layers", OTHER_ENDS)
def test_a_sigmoid_that_is_not_the_last_module_is_none(layers):
    result = migrate_source(CONTAINER.format(layers=layers).encode(), Options(api="torch.amp"))
    assert [one.code for one in result.findings] == ["AMP967"]
