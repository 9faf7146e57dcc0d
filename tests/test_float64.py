"""Equal mathematics in other bits: `verify` tells it from a mistake by running both in float64."""

from __future__ import annotations

import pytest

from amp_migrate.verify.comparison import Comparison, Line
from amp_migrate.verify.pool import Pool
from tests.test_execution import run_both

# Data of all kinds, for which a run in float64 must be one throughout.
_BEFORE = """\
import io

import numpy as np
import torch
from torch import nn

torch.manual_seed(5)
net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid()).cuda()
criterion = nn.BCELoss(weight=torch.cuda.FloatTensor([0.5]))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-4, eps=1e-8)
rows = torch.from_numpy(np.random.RandomState(6).randn(48, 6).astype("float32"))
labels = (rows[:, :1] > 0).type(torch.FloatTensor)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows, labels), batch_size=8, num_workers=1)
for epoch in range(3):
    net.train()
    for x, y in loader:
        x, y = x.cuda().float(), y.to("cuda", torch.float32)
        assert x.dtype == torch.float32 and y.type() == "torch.cuda.FloatTensor"
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        right = net(rows.cuda()).round() == labels.cuda()
    state = io.BytesIO()
    torch.save(net.state_dict(), state)
    state.seek(0)
    net.load_state_dict(torch.load(state))
"""
_AFTER = (
    _BEFORE.replace(", nn.Sigmoid())", ")")
    .replace("nn.BCELoss(", "nn.BCEWithLogitsLoss(")
    .replace("net(rows.cuda()).round()", "(net(rows.cuda()) > 0)")
    .replace(
        "        loss = criterion(net(x), y)\n",
        "        with torch.amp.autocast('cuda'):\n            loss = criterion(net(x), y)\n",
    )
    .replace("loss.backward()", "scaler.scale(loss).backward()")
    .replace("        optimizer.step()\n", "        scaler.step(optimizer)\n        scaler.update()\n")
    .replace("rows = torch.from", "scaler = torch.amp.GradScaler('cuda')\nrows = torch.from")
)


def _neutral(comparison: Comparison) -> Line:
    return next(line for line in comparison.lines() if line.check == "bit-identical")


def test_rounding_is_no_difference(pool: Pool, tmp_path):
    comparison = run_both(_BEFORE.encode(), _AFTER.encode(), (), pool, tmp_path)
    assert comparison.verdict == "same", comparison.reason
    usual = [comparison.runs[f"{side} without AMP"] for side in ("original", "migrated")]
    assert usual[0].digest != usual[1].digest
    assert all(comparison.runs[f"{side} in float64"].is_float64 for side in ("original", "migrated"))
    assert (_neutral(comparison).status, "in float64" in _neutral(comparison).text) == ("ok", True)


@pytest.mark.parametrize(
    ("right", "wrong", "what"),
    [
        ("weight_decay=1e-4", "weight_decay=0.0", "the loss of update 2"),
        ("eps=1e-8", "eps=1e-7", "the loss of update 2"),
        ("lr=1e-3", "lr=1.00001e-3", "the loss of update 2"),
        ("    net.eval()\n", "", "the buffers at the end differ"),
        ("0.5]", "0.500001]", "the loss of update 1"),
        ("y)\n    ", "y) + 1e-7 * net[0].weight.sum()\n    ", "the loss of update 1"),
    ],
)
def test_mistakes_below_rounding_are_found(right: str, wrong: str, what: str, pool: Pool, tmp_path):
    assert _AFTER.count(right) == 1
    comparison = run_both(_BEFORE.encode(), _AFTER.replace(right, wrong).encode(), (), pool, tmp_path)
    assert comparison.verdict == "different"
    assert what in comparison.reason


def test_script_that_does_not_run_in_float64(pool: Pool, tmp_path):
    """Ten updates up to rounding are all that can be said then."""
    asks = "assert torch.zeros(2).double().dtype == torch.float64\n"
    sides = [content.replace("torch.manual_seed", asks + "torch.manual_seed") for content in (_BEFORE, _AFTER)]
    comparison = run_both(*(content.encode() for content in sides), (), pool, tmp_path)
    assert comparison.verdict == "same", comparison.reason
    assert (_neutral(comparison).status, "they do not run" in _neutral(comparison).text) == ("warning", True)
