"""What an output is divided by: the gradient of a quotient is divided by its square, which half loses below 1.5e-5."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

SCRIPT = """\
import torch
from torch import nn


def project(X, f):
    {body}


model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for i in range(4):
    x, target = torch.rand(4, 8).cuda(), torch.rand(4, 2).cuda()
    loss = (project(model(x), 1.1) - target).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
KEPT = {
    "an operator": ("return f * (X[..., :2] / X[..., 2:])", "X[..., 2:].float()"),
    "a function": ("return torch.div(X[..., :2], X[..., 2:]) * f", "X[..., 2:].float()"),
    "a method": ("return X[..., :2].div(X[..., 2:]) * f", "X[..., 2:].float()"),
    "named first": ("depth = X[..., 2:]\n    return f * X[..., :2] / depth", "depth.float()"),
    "split": ("xy, z = X.split([2, 1], dim=-1)\n    return torch.clamp(xy / z, -1, 1)", "z.float()"),
    "a number above": ("return f / X[..., :2]", "X[..., :2].float()"),
}
AS_BEFORE = {
    "by a norm": "return X[..., :2] / X.norm(dim=-1, keepdim=True)",
    "by what has its shape": "return X[..., :2] / X.norm(dim=-1, keepdim=True).expand_as(X[..., :2])",
    "by what is moved like it": "return X[..., :2] / torch.ones(2).cuda().expand(4, 2).view_as(X[..., :2])",
    "by a sum": "return X[..., :2] / X.sum(dim=-1, keepdim=True)",
    "by a number": "return X[..., :2] / f",
    "above": "return X[..., :2] / torch.rand(4, 2).cuda()",
}


def migrated(tmp_path, body: str) -> str:
    write_tree(tmp_path, {"train.py": SCRIPT.format(body=body).encode()})
    (result,) = migrate_project([tmp_path], Options(api="torch.amp"))
    assert result.status == "migrated"
    return result.output.decode()


@pytest.mark.parametrize(("body", "wanted"), KEPT.values(), ids=KEPT)
def test_an_output_divides_in_float32(tmp_path, body, wanted):
    output = migrated(tmp_path, body)
    assert wanted in output
    assert output.count(".float()") == 1


@pytest.mark.parametrize("body", AS_BEFORE.values(), ids=AS_BEFORE)
def test_what_is_no_output_divides_as_before(tmp_path, body):
    assert body in migrated(tmp_path, body)
