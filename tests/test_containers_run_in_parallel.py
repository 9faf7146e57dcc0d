"""`data_parallel(container, x)` runs the container: a Sigmoid at its end gets float32, as where it is called."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SOURCE = """\
import torch
from torch import nn
from torch.nn.parallel import data_parallel

class Net(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count
        self.main = nn.Sequential(nn.Linear(4, 4), LAST)
    def forward(self, x):
        if self.count > 1:
            y = RUN
        else:
            y = self.main(x)
        return y

net = Net(torch.cuda.device_count()).cuda()
optimizer = torch.optim.Adam(net.parameters())
for i in range(5):
    x = torch.rand(8, 4).cuda()
    p = net(x)
    loss = LOSS
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LOSSES = [
    "-((p + 1e-12).log() * x + (1 - p + 1e-12).log() * (1 - x)).sum()",
    "-(x * torch.log(p) + (1 - x) * torch.log(1 - p)).mean()",
]
RUNS = [
    "nn.parallel.data_parallel({}, x, range(self.count))",
    "data_parallel({}, x, list(range(self.count)))",
    "data_parallel({}, x)",
]


def migrated(run, loss, last="nn.Sigmoid()"):
    source = SOURCE.replace("RUN", run.format("self.main")).replace("LOSS", loss).replace("LAST", last)
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    return result.output.decode()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("run", RUNS)
def test_its_sigmoid_is_in_float32(run, loss):
    output = migrated(run, loss)
    assert f"self.main[-1]({run.format('self.main[:-1]')}.float())" in output
    assert "self.main[-1](self.main[:-1](x).float())" in output


@pytest.mark.parametrize("run", RUNS)
def test_another_layer_at_the_end_stays(run):
    assert "[-1]" not in migrated(run, "((p - x) ** 2).mean()", "nn.ReLU()")
