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
