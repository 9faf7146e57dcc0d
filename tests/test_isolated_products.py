"""A product of a matrix with its own transpose sums squares; one of two layers' outputs does not."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, d_model=32, h=4):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(3)])
        self.out = nn.Linear(d_model, d_model)

    def forward(self, query, key, value):
        n = query.size(0)
        TAKEN
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        x = torch.matmul(torch.softmax(scores, dim=-1), value)
        return self.out(x.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))


device = torch.device("cuda")
model = Attention().to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(10):
    x = torch.randn(8, 10, 32).to(device)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x, x, x), x)
    loss.backward()
    optimizer.step()
"""
VIEW = ".view(n, -1, self.h, self.d_k).transpose(1, 2)"
LAYERS = "zip(self.linears, (query, key, value))"
OF_TWO = [
    f"query, key, value = [layer(x){VIEW} for layer, x in {LAYERS}]",
    f"query, key, value = (layer(x){VIEW} for layer, x in {LAYERS})",
    f"parts = [layer(x){VIEW} for layer, x in {LAYERS}]\n        query, key, value = parts[0], parts[1], parts[2]",
    f"query, key, value = self.linears[0](query){VIEW}, self.linears[1](key){VIEW}, self.linears[2](value){VIEW}",
]
OF_ONE = [
    f"query = self.linears[0](query){VIEW}\n        key = value = query",
    f"parts = [layer(x){VIEW} for layer, x in {LAYERS}]\n        query, key, value = parts[0], parts[0], parts[1]",
]


def sums_squares(taken: str) -> bool:
    result = migrate_source(SCRIPT.replace("TAKEN", taken).encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    is_island = 'autocast("cuda", enabled=False)' in result.output.decode()
    return is_island or "AMP186" in {one.code for one in result.findings}


@pytest.mark.parametrize("taken", OF_TWO)
def test_products_of_two_layers(taken):
    assert not sums_squares(taken)


@pytest.mark.parametrize("taken", OF_ONE)
def test_products_of_one_with_itself(taken):
    assert sums_squares(taken)


EVALUATED = """\
import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return self.aligned(self.fc(x), x)

    def aligned(self, x, y):
        RETURNED


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    x = torch.randn(8, 10, 3).cuda()
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    EVALUATION
"""
RETURNED = [
    "u, s, v = torch.svd(x.transpose(1, 2) @ y)\n        return v @ u.transpose(1, 2)",
    "return torch.inverse(torch.matmul(x.transpose(1, 2), y)) @ y.transpose(1, 2)",
    "return x.pow(2).sum(2, keepdim=True) - 2 * x @ y.transpose(1, 2)",
]
EVALUATIONS = [
    'given = torch.from_numpy(np.load("given.npy")).cuda()\n    print(model.aligned(given, given).max())',
    'given = torch.rand(8, 10, 3, device="cuda", dtype=torch.float64)\n    print(model.aligned(given, given).max())',
    "print(model(x).max())",
]


def islands(returned: str, evaluation: str) -> int:
    source = EVALUATED.replace("RETURNED", returned).replace("EVALUATION", evaluation)
    return migrate_source(source.encode(), Options(api="torch.amp")).output.decode().count("enabled=False")


@pytest.mark.parametrize("returned", RETURNED)
@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_what_an_evaluation_gives_takes_no_island_away(returned, evaluation):
    assert islands(returned, evaluation) == islands(returned, "pass") > 0


def test_complex_numbers_are_not_cut():
    evaluation = "given = torch.view_as_complex(torch.rand(8, 10, 3, 2))\n    print(model.aligned(given, given))"
    assert islands(RETURNED[0], evaluation) == 0
