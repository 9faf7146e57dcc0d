"""Losses that are means of half values: the loss scale does not fit into the gradient of such a mean."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

SCRIPT = """\
import argparse
import torch
from collections import OrderedDict
from torch import nn
from torchvision.models import resnet18


parser = argparse.ArgumentParser()
parser.add_argument("--beta", default=1.0)
args = parser.parse_args()


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Linear(8, 16), nn.ReLU()]
        layers += [nn.Linear(16, 1)]
        self.net = {net}

    def forward(self, x):
        return self.net(x)


critic = {critic}.cuda()
optimizer = torch.optim.Adam(critic.parameters(), lr=2e-4)
for step in range(20):
    out = critic(torch.randn(64, 8).cuda())
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NETS = {
    "written out": "nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))",
    "a list": "nn.Sequential(*layers)",
    "a dict": 'nn.Sequential(OrderedDict([("first", nn.Linear(8, 16)), ("last", nn.Linear(16, 1))]))',
    "a layer": "nn.Linear(8, 1)",
}
LOSSES = {
    "-out.mean()": "-out.float().mean()",
    "-torch.mean(out)": "-torch.mean(out.float())",
    "torch.mean(out[:32]) - torch.mean(out[32:])": "torch.mean(out[:32].float()) - torch.mean(out[32:].float())",
    "torch.mean(torch.split(out, 32)[0])": "torch.mean(torch.split(out, 32)[0].float())",
    "torch.mean(1 - out * (out / args.beta))": "torch.mean((1 - out * (out / args.beta)).float())",
    "torch.mean(torch.clamp(1 - out, min=0))": "torch.mean(torch.clamp(1 - out, min=0).float())",
}


def loss_of(tmp_path, **parts: str) -> str:
    write_tree(tmp_path, {"train.py": SCRIPT.format(**parts).encode()})
    (result,) = migrate_project([tmp_path], Options(api="torch.amp"))
    assert result.status == "migrated", result
    lines = (line.strip() for line in result.output.decode().splitlines())
    return next(line for line in lines if line.startswith("loss = ")).removeprefix("loss = ")


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_mean_is_taken_in_float32(tmp_path, net, loss):
    assert loss_of(tmp_path, net=net, critic="Critic()", loss=loss) == LOSSES[loss]


def test_what_a_model_out_of_sight_returns_is_mostly_a_loss(tmp_path):
    critic = "torch.nn.DataParallel(resnet18(num_classes=1))"
    assert loss_of(tmp_path, net="nn.Linear(8, 1)", critic=critic, loss="out.mean()") == "out.mean()"


TWO = "self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 1)"
LIST = "self.net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))"
PARTS = {
    "children": (TWO, "for layer in self.children():\n            x = layer(x)"),
    "children by name": (TWO, "for name, layer in self.named_children():\n            x = layer(x)"),
    "getattr": (TWO, "for name in ('first', 'last'):\n            x = getattr(self, name)(x)"),
    "set by name": (
        "for i in range(2):\n            setattr(self, f'fc{i}', nn.Linear(8, 8))",
        "for i in range(2):\n            x = getattr(self, f'fc{i}')(x)",
    ),
    "a loop": (LIST, "for layer in self.net:\n            x = layer(x)"),
    "an index": (LIST, "x = self.net[1](self.net[0](x))"),
    "a slice": (LIST, "x = self.net[1:](self.net[:1](x))"),
    "a list that grows": (
        "self.net = nn.ModuleList()\n        self.net.extend([nn.Linear(8, 8), nn.Linear(8, 1)])",
        "for layer in self.net:\n            x = layer(x)",
    ),
    "a dict": (
        "self.net = nn.ModuleDict({'a': nn.Linear(8, 8), 'b': nn.Linear(8, 1)})",
        "for layer in self.net.values():\n            x = layer(x)",
    ),
    "a dict that grows": (
        "self.net = nn.ModuleDict()\n        self.net['a'] = nn.Linear(8, 1)",
        "for name, layer in self.net.items():\n            x = layer(x)",
    ),
    "a lambda": ("self.fc = nn.Linear(8, 1)\n        self.act = lambda x: x.relu()", "x = self.act(self.fc(x))"),
}


@pytest.mark.parametrize("how", PARTS)
def test_a_layer_is_one_however_the_network_holds_it(tmp_path, how):
    made, run = PARTS[how]
    text = SCRIPT.replace("layers = [nn.Linear(8, 16), nn.ReLU()]\n        layers += [nn.Linear(16, 1)]\n", "{made}\n")
    text = text.replace("        self.net = {net}\n", "").replace("return self.net(x)", "{run}\n        return x")
    text = text.format(made=made, run=run, critic="Critic()", loss="-out.mean()")
    write_tree(tmp_path, {"train.py": text.encode()})
    (result,) = migrate_project([tmp_path], Options())
    assert "loss = -out.float().mean()" in result.output.decode(), result
