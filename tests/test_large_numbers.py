"""Numbers that half cannot hold, however they are written: masked_fill raises for them."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import json
import math
import sys
import numpy as np
import torch
from torch import nn

HIDDEN = {number}


class Attention(nn.Module):
    HIDDEN = {number}

    def __init__(self):
        super().__init__()
        self.keys = nn.Linear(8, 8)

    def forward(self, x, mask):
        scores = self.keys(x) @ x.transpose(1, 2)
        scores = scores.masked_fill(mask == 0, {written})
        return torch.softmax(scores, dim=2) @ x


model = Attention().cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, mask in [(torch.rand(4, 3, 8), torch.ones(4, 3, 3))]:
    loss = nn.functional.mse_loss(model(x.cuda(), mask.cuda()), x.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LARGE = [
    "-1e9",
    'float("-1e20")',
    "float(-1e9)",
    "int(-1e9)",
    "-10 ** 9",
    "np.float32(-1e9)",
    "-sys.maxsize",
    'np.finfo("float32").min',
    "torch.finfo(torch.float32).min",
    "-1e9 if len(sys.argv) > 1 else -1e4",
    'json.load(open("settings.json"))["hidden"]',
]
SMALL = ['float("-inf")', "-1e4", "float(-100)", '-float("inf")', "0", "-math.inf", "-np.inf"]


@pytest.mark.parametrize("name", [None, "HIDDEN", "self.HIDDEN", "Attention.HIDDEN"])
@pytest.mark.parametrize("number", [*LARGE, *SMALL])
def test_a_number_beyond_half_is_filled_into_float32(number, name):
    source = SCRIPT.format(number=number, written=name or number)
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    assert (".float().masked_fill" in result.output.decode()) == (number in LARGE)


@pytest.mark.parametrize("made", ["Layers.Attention", "Model.layer", "Model().layer"])
def test_a_class_within_a_class_is_read(made):
    before, _, rest = SCRIPT.format(number="-1e9", written="-1e9").partition("class Attention(nn.Module):\n")
    body, _, script = rest.partition("\n\n\n")
    inner = "class Layers:\n    class Attention(nn.Module):\n" + "\n".join(f"    {one}" for one in body.splitlines())
    own = "\n\n\nclass Model:\n    layer = Layers.Attention\n\n\n"
    result = migrate_source((before + inner + own + script.replace("Attention()", f"{made}()")).encode(), Options())
    assert ".float().masked_fill" in result.output.decode(), result


PADDED = """\
import json

import torch
from torch import nn


def pad_list(rows, value):
    made = rows[0].new(len(rows), 5).fill_(value)
    for i, row in enumerate(rows):
        made[i, : row.size(0)] = row
    return made


class Net(nn.Module):
    def __init__(self, end):
        super().__init__()
        self.end = end
        self.names = nn.Embedding(9, 4)
        self.fc = nn.Linear(4, 4)

    def forward(self, rows):
        first = rows[0].new([self.end])
        rows = [torch.cat([first, row]) for row in rows]
        return self.fc(self.names(pad_list(rows, self.end)))


table = json.load(open("names.json"))
net = Net(table["a"]).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = [pad_list([torch.ones(3).float()], 0), pad_list([torch.ones(3).long()], 0).cuda()]
for i in range(3):
    loss = net(data[1]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
"""


def test_what_may_hold_numbers_of_names_is_filled_as_it_is():
    output = migrate_source(PADDED.encode(), Options(api="torch.amp")).output.decode()
    assert "GradScaler" in output
    assert ".float().fill_" not in output
