"""What is 1 in half, a sigmoid or a product, under a logarithm or a quotient: it runs in float32, whatever makes it."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source
from tests.drawn.run import run

SCRIPT = """\
import torch
from torch import nn


class Squash(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.base, self.act = nn.Linear(8, 8), nn.ModuleList([nn.Sigmoid()])
        self.head = {head}

    def forward(self, x):
        return {out}


net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for x in torch.utils.data.DataLoader(torch.randn(8, 8), 4):
    p = net(x.cuda())
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LOG = "-torch.log(1 - p + 1e-6).mean()"
HEAD = "nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())"
CALLED = "self.head(self.base(x))"
LAST = "self.head[-1](self.head[:-1](self.base(x)).float())"
MADE_BY = {
    "a container": (HEAD, CALLED, LAST),
    "a list of layers": ("nn.Sequential(*[nn.Linear(8, 1), nn.Sigmoid()])", CALLED, LAST),
    "what is added": (
        "nn.Sequential()\n        self.head.add_module('l', self.base)\n        self.head.append(nn.Sigmoid())",
        CALLED,
        LAST,
    ),
    "a tanh": ("nn.Sequential(nn.Linear(8, 1), nn.Tanh())", CALLED, LAST),
    "a module of the unit that ends a container": (
        "nn.Sequential(nn.Linear(8, 1), Squash())",
        CALLED,
        "torch.sigmoid(x.float())",
    ),
    "one of the unit that is added": (
        "nn.Sequential(nn.Linear(8, 1))\n        self.head.add_module('out', Squash())",
        CALLED,
        "torch.sigmoid(x.float())",
    ),
    "one of the unit in a list": ("nn.Sequential(*[nn.Linear(8, 1), Squash()])", CALLED, "torch.sigmoid(x.float())"),
    "a function": ("nn.Linear(8, 1)", "torch.tanh(self.head(x))", "torch.tanh(self.head(x).float())"),
    "a list of modules": ("nn.Linear(8, 1)", "self.act[0](self.head(x))", "self.act[0](self.head(x).float())"),
}


@pytest.mark.parametrize("maker", MADE_BY)
def test_whatever_makes_it(maker):
    head, out, kept = MADE_BY[maker]
    result = migrate_source(SCRIPT.format(head=head, out=out, loss=LOG).encode(), Options())
    assert kept in result.output.decode(), result.findings


@pytest.mark.parametrize(
    "loss",
    ["torch.log(p).mean()", "(x.cuda() / (1 - p)).mean()", "((1 - p) ** 2 * p.log()).mean()", "(p - 1).rsqrt().mean()"],
)
def test_whatever_takes_it(loss):
    output = migrate_source(SCRIPT.format(head=HEAD, out=CALLED, loss=loss).encode(), Options()).output.decode()
    assert LAST in output


OF_PROBABILITIES = SCRIPT.format(head="nn.Linear(8, 8)", out="torch.softmax(self.head(x), 1)", loss="LOSS")
BCE = "-torch.log(1 - p + 1e-7).mean()"
NEAR_ONE = [
    ("q @ q.t()", BCE),
    ("torch.mm(q, q.t())", "(-torch.log(p) - torch.log(1 - p)).mean()"),
    ("torch.einsum('ik,jk->ij', q, q)", "torch.log(1 - torch.min(p, torch.ones(1, device=p.device)) + 1e-7).mean()"),
    ("q.matmul(q.t())", "torch.log(1 - torch.minimum(p, torch.ones_like(p)) + 1e-7).mean()"),
    ("nn.functional.linear(q, q)", "torch.log((1 - p).clamp(min=1e-7)).mean()"),
    ("q @ q.t()", "(q.sum() / (1 - p**2)).mean()"),
    ("net.base(q)", BCE),
    ("others(q) @ others(q).t()", BCE),
    ("q @ q.t()", "torch.log1p(-p).mean()"),
    ("q @ q.t()", "(-p * 0.999).log1p().mean()"),
    ("q @ q.t()", "torch.log1p((-0.999 * p).clamp(min=-0.999)).mean()"),
    ("q @ q.t()", "torch.log1p(p.neg()).mean()"),
]


def of_probabilities(product: str, loss: str) -> str:
    script = OF_PROBABILITIES.replace("p = net(x.cuda())", f"q = net(x.cuda())\n    p = {product}")
    result = migrate_source(script.replace("LOSS", loss).encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    return result.output.decode()


@pytest.mark.parametrize(("product", "loss"), NEAR_ONE)
def test_a_product_that_is_taken_from_one(product, loss):
    assert "enabled=False" in of_probabilities(product, loss)


@pytest.mark.parametrize(
    "loss",
    ["(1 - p).mean()", "torch.log(1 + p).mean()", "torch.log1p(p).mean()", "(q.sum() / (1 - torch.exp(-p))).mean()"],
)
def test_a_product_that_is_taken_from_one_nowhere_near_a_pole(loss):
    assert "enabled=False" not in of_probabilities("q @ q.t()", loss)


def test_a_product_beside_what_needs_autocast_refuses():
    script = SCRIPT.format(head="nn.Linear(8, 8)", out="self.head(x) @ self.base(x).t()", loss=BCE)
    assert [one.code for one in migrate_source(script.encode(), Options()).findings] == ["AMP967"]


@pytest.mark.parametrize("loss", ["p.mean()", "(x.cuda() / (1 + p)).mean()", "(x.cuda() / (2 - p)).mean()"])
def test_nothing_is_kept_where_nothing_is_near_a_pole(loss):
    output = migrate_source(SCRIPT.format(head=HEAD, out=CALLED, loss=loss).encode(), Options()).output.decode()
    assert CALLED in output


@pytest.mark.parametrize(
    "head",
    [
        "nn.Sequential(nn.Linear(8, 1), nn.Sigmoid(), nn.Flatten())",
        "nn.Sequential(nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()))",
    ],
)
def test_one_that_is_not_the_last_module_refuses(head):
    result = migrate_source(SCRIPT.format(head=head, out=CALLED, loss=LOG).encode(), Options())
    assert [finding.code for finding in result.findings] == ["AMP967"]


BOUNDED = """\
import torch
from torch import nn


def bounded(x):
    {body}
    return y


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)).cuda()
nn.init.constant_(net[1].bias, 30.0)
optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
for step in range(3):
    p = bounded(net(torch.randn(16, 8).cuda()))
    loss = -(torch.log(p) * (1 - p) ** 2 + torch.log(1 - p) * p**2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
"""


@pytest.mark.parametrize(
    "body",
    [
        "y = torch.clamp(x.sigmoid_(), min=1e-4, max=1 - 1e-4)",
        "y = torch.sigmoid(x).clip(1e-4, 1 - 1e-4)",
        "y = x.sigmoid() * 1.0\n    y.clamp_(1e-4, 1 - 1e-4)",
        "y = nn.functional.hardtanh(x.sigmoid(), 1e-4, 1 - 1e-4)",
        "limits = [1e-4, 1 - 1e-4]\n    y = torch.clamp(nn.functional.sigmoid(x), *limits)",
        "y = torch.minimum(x.sigmoid(), x.new_tensor(1 - 1e-4))",
        "y = torch.min(x.sigmoid(), torch.full_like(x, 1 - 1e-4))",
        "y = torch.where(x > 9, x.new_full((1,), 1 - 1e-4), x.sigmoid())",
    ],
)
def test_a_bound_below_one_holds(body):
    source = BOUNDED.format(body=body)
    before, after = run(source), run(migrate_source(source.encode(), Options(api="torch.amp")).output.decode())
    assert after.switched == (True,)
    assert after.losses == pytest.approx(before.losses, rel=1e-2), after
