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
