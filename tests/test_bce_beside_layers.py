"""A binary cross entropy in one statement with a layer: the layer stays under autocast, which the loss must leave.

Outside of autocast a layer of float32 weights raises on the half features that it is given.
"""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

SCRIPT = """\
import torch
from torch import nn
{imports}

{defined}
class Loss(nn.Module):
    def __init__(self, head):
        super().__init__()
        self.head = {head}
        self.bce = nn.BCELoss()

    def forward(self, h, y):
        return self.bce(torch.sigmoid({called}(h)), y)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(10, 10)
        self.loss = Loss(nn.Linear(10, 1))

    def forward(self, x, y):
        return self.loss(self.enc(x), y)


class Wrapper(nn.Module):
    def __init__(self, {field}):
        super().__init__()
        self.{field} = {field}

    def forward(self, *args):
        return self.{field}(*args)


model = {model}.cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for x, y in [(torch.randn(4, 10), torch.ones(4, 1))]:
    loss = model(x.cuda(), y.cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HEAD = """\
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(10, 1)

    def forward(self, h):
        return self.fc(h)


"""
HEADS = {
    "a layer": {"head": "nn.Linear(10, 1)"},
    "one that is given": {"head": "head"},
    "a container": {"head": "nn.Sequential(nn.Linear(10, 4), nn.Linear(4, 1))"},
    "a module": {"head": "Head()", "defined": HEAD},
    "out of sight": {"head": "make_head()", "imports": "from heads import make_head\n"},
    "by its forward": {"head": "nn.Linear(10, 1)", "called": "self.head.forward"},
}
MODELS = {
    "itself": {"model": "Model()"},
    "in a wrapper": {"model": "Wrapper(Model())"},
    "in a wrapper like torch's": {"model": "Wrapper(Model())", "field": "module"},
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("model", MODELS)
def test_a_layer_stays_under_autocast(tmp_path, head, model):
    parts = {"imports": "", "defined": "", "called": "self.head", "field": "net", **HEADS[head], **MODELS[model]}
    write_tree(tmp_path, {"train.py": SCRIPT.format(**parts).encode()})
    (result,) = migrate_project([tmp_path], Options(api="torch.amp"))
    output = result.output.decode()
    assert (
        result.status == "left"
        or (
            f"        output = torch.sigmoid({parts['called']}(h).float())\n"
            '        with torch.amp.autocast("cuda", enabled=False):\n'
            "            return self.bce(output, y)\n"
        )
        in output
    ), output
    assert result.status == "migrated" or head == "out of sight"
