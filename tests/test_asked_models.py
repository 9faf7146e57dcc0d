"""What is asked for the device of its parameters has some."""

from __future__ import annotations

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

FILES = {
    "main.py": """\
import sys

import registry
import torch
from trainer import Trainer

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = registry.MODELS[sys.argv[1]](3)
net = net.to(device)
trainer = Trainer(net)
if sys.argv[2:]:
    net = trainer
""",
    "models.py": "",
    "registry.py": """\
import models

MODELS = {"plain": models.Plain, "pooled": models.Pooled}
""",
    "trainer.py": """\
from torch import nn, optim


class Trainer:
    def __init__(self, net):
        self.net = net
        self.optimizer = optim.SGD(net.parameters(), lr=0.01)

    def step(self, x, y):
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
""",
}


def test_a_trainer_is_not_asked_for_parameters_where_a_name_is_also_that_of_its_net(tmp_path):
    write_tree(tmp_path, {name: text.encode() for name, text in FILES.items()})
    results = migrate_project([tmp_path], Options(api="torch.amp"))
    assert "AMP999" not in {one.code for result in results for one in result.findings}
    assert not any(b"self.parameters" in result.output for result in results)
