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
