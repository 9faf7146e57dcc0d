"""What is written by index into an array of NumPy keeps its type: NumPy casts, and its arrays have no `to`."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source
from tests.drawn.run import run

SCRIPT = """\
import numpy as np
import torch
from torch import nn


def offsets(source, target):
    return np.vstack((target[:, 0] - source[:, 0], np.log(target[:, 1] / source[:, 1]))).transpose()


def unmap(data, count, index, fill=0):
    made = MADE
    made.FILL(fill)
    made[index] = data
    return made


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        found = unmap(GIVEN, 8, INDEX)
        return h * torch.as_tensor(found).to(h.device).mean()


torch.manual_seed(0)
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(3):
    x = torch.rand(8, 4).cuda()
    loss = (net(x) - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
"""
ARRAY = {
    "MADE": "np.empty((count,) + data.shape[1:], dtype=data.dtype)",
    "FILL": "fill",
    "GIVEN": "offsets(np.ones((8, 4)), 1 + x.cpu().numpy())",
    "INDEX": "np.arange(8)",
}
TENSOR = {
    "MADE": "torch.zeros(count, 4).cuda()",
    "FILL": "fill_",
    "GIVEN": "h.detach()",
    "INDEX": "torch.arange(8).cuda()",
}


@pytest.mark.parametrize(("names", "cast"), [(ARRAY, False), (TENSOR, True)])
def test_an_array_gets_no_cast(names, cast):
    source = SCRIPT
    for name, text in names.items():
        source = source.replace(name, text)
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert "GradScaler" in output
    assert ("data.to(made.dtype)" in output) == cast
    before, after = run(source), run(output)
    assert not before.error and not after.error, (before, after)
    assert after.losses == pytest.approx(before.losses, rel=0.01)
