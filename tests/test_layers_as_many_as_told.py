"""Torch's DistributedDataParallel looks for unused parameters where a forward takes as many layers as it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import Options
from amp_migrate.files.imports import forget
from amp_migrate.project import migrate_paths

SCRIPT = """\
import copy
import torch
from apex import amp
from apex.parallel import DistributedDataParallel as DDP
from torch import nn


class Net(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.depth = args.depth
        layer = nn.Linear(8, 8)
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(4)])

    def forward(self, x, depth):
        for layer in {layers}:
            x = torch.relu(layer(x))
        return x


def main(loader, args):
    model = Net(args).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    model = DDP(model)
    for x in loader:
        loss = model(x.cuda(), args.depth).pow(2).mean()
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("layers", "looks"),
    [
        ("self.layers[:depth]", True),
        ("self.layers[depth:]", True),
        ("self.layers", False),
        ("self.layers[: self.depth]", False),
        ("self.layers[:-1]", False),
    ],
)
def test_layers_of_a_slice(tmp_path: Path, layers: str, looks: bool) -> None:
    (tmp_path / "main.py").write_text(SCRIPT.format(layers=layers))
    forget()
    (result,) = migrate_paths([tmp_path], Options())
    assert b"DDP(model" in result.output and (b"find_unused_parameters=True" in result.output) == looks
