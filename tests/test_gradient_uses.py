"""What looks as if it used gradients, by its name and what it is given, and does not."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

ACCUMULATED = """\
import torch
import torch.nn as nn
{imports}

class Measure(nn.Module):
    def __init__(self, net=None):
        super().__init__()
        self.net = net
    def forward(self, latent, average):
        {body}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.average = nn.Parameter(torch.zeros(4))
    def forward(self, x):
        return self.layer(x)

net = Net().cuda()
norm_of = {made}
optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    optimizer.zero_grad()
    for part in range(2):
        loss = norm_of(net(torch.randn(2, 4).cuda()), net.average)
        loss.backward()
        {after}
    optimizer.step()
"""
OF_LATENT = "return (latent - average).norm(2, dim=1).mean()"


def left(body: str = OF_LATENT, made: str = "Measure()", after: str = "pass", imports: str = "") -> set[str]:
    code = ACCUMULATED.format(body=body, made=made, after=after, imports=imports)
    result = migrate_source(code.encode(), Options(api="torch.amp"))
    return {one.code for one in result.findings} if result.status == "left" else set()


@pytest.mark.parametrize(
    "body",
    [
        OF_LATENT,
        "return torch.norm(latent - average)",
        "norm = torch.linalg.vector_norm(latent - average)\n        return norm",
        "return self.norm(latent - average)\n    def norm(self, x):\n        return x.pow(2).sum().sqrt()",
    ],
)
@pytest.mark.parametrize("made", ["Measure()", "Measure().cuda()", "Measure(net)"])
def test_a_module_that_computes_the_norm_of_an_output_uses_no_gradients(body, made):
    assert not left(body, made)


@pytest.mark.parametrize(
    "body, made, after",
    [
        (OF_LATENT, "Measure()", "norm_of.forward(net.average.grad, 0).item()"),
        (OF_LATENT, "Measure()", "norms.append(net.average.grad.norm())"),
        (OF_LATENT, "Measure(net)", "norm_of(net.average, net.average.grad)"),
    ],
)
def test_gradients_that_are_used_refuse(body, made, after):
    assert "AMP904" in left(body, made, after)


def test_a_module_that_reads_gradients_refuses():
    body = "return latent.mean() + average.grad.norm() * 0"
    assert "AMP904" in left(body)
    assert "AMP904" in left(f"return self.norm(latent, average)\n    def norm(self, latent, average):\n        {body}")


def test_a_module_out_of_sight_may_read_them():
    assert "AMP904" in left(made="NormOf()", imports="from elsewhere import NormOf")


CLIPPED = """\
import torch
from torch import nn
from elsewhere import Meter, size_of

def grad_norm_of(parameters, norm_type=2):
    total = 0
    for p in parameters:
        total += p.grad.data.norm(norm_type).item() ** norm_type
    return total ** (1.0 / norm_type)

def largest(parameters):
    return max(p.grad.abs().max() for p in parameters)

model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
meter = Meter()
for step in range(8):
    loss = model(torch.randn(8, 4).cuda()).pow(2).mean()
    loss.backward()
    norm = {norm}
    meter.update(norm)
    if step % 2:
        optimizer.step()
        optimizer.zero_grad()
"""


def kept(norm: str) -> tuple[str, set[str]]:
    result = migrate_source(CLIPPED.format(norm=norm).encode(), Options(api="torch.amp"))
    return result.output.decode(), {one.code for one in result.findings} if result.status == "left" else set()


@pytest.mark.parametrize(
    "norm",
    [
        "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)",
        "grad_norm_of(model.parameters())",
        "grad_norm_of(list(model.parameters()), 2)",
    ],
)
def test_a_norm_that_goes_to_a_meter_of_another_package_is_divided(norm):
    output, codes = kept(norm)
    assert not codes
    assert "/ scaler.get_scale()" in output


@pytest.mark.parametrize(
    "norm",
    [
        "list(model.parameters())",
        "[p for p in model.parameters()]",
        "size_of(model.parameters())",
        "largest(model.parameters())",
        "[p.grad for p in model.parameters()]",
    ],
)
def test_what_gets_the_parameters_or_another_size_may_use_gradients(norm):
    assert "AMP904" in kept(norm)[1]
