"""custom_fwd(cast_inputs=...) gives an autograd function a copy of each list: one that somebody fills is refused."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, kept):
        ctx.save_for_backward(x, weight)
        FORWARD
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.t(), x.t() @ grad, None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = []
        self.weight = nn.Parameter(torch.eye(4))

    def forward(self, x):
        y = Product.apply(x, self.weight, self.kept)
        CALLER
        return y


net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(2):
    x = torch.rand(8, 4).cuda()
    loss = net(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def findings(forward, caller):
    source = SCRIPT.replace("FORWARD", forward).replace("CALLER", caller)
    return [(one.code, one.line) for one in migrate_source(source.encode(), Options(api="torch.amp")).findings]


@pytest.mark.parametrize(
    ("forward", "caller"),
    [
        ("kept.append(x)", "pass"),
        ("mine = kept\n        mine.append(x)", "pass"),
        ("ctx.kept = kept", "self.kept.append(y)"),
    ],
)
def test_a_list_that_is_filled_is_refused(forward, caller):
    assert ("AMP982", 5) in findings(forward, caller)


@pytest.mark.parametrize(
    ("forward", "caller"), [("ctx.kept = kept", "pass"), ("pass", "self.kept.append(y)"), ("ctx.n = len(kept)", "pass")]
)
def test_a_list_that_is_only_read_may_be_a_copy(forward, caller):
    assert "AMP982" not in [code for code, _ in findings(forward, caller)]
