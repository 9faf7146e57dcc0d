"""Two scripts train by two functions of one file: each has an optimizer and a device of its own."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

TRAININGS = """\
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return self.fc(x)


def train(model, optimizer, device, batches):
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()


def train_head(model, head, optimizer, device, batches):
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.mse_loss(head(model(x)), y)
        loss.backward()
        optimizer.step()
"""
SCRIPT = """\
import sys

import torch
from torch import nn

from trainings import Net, NAME


class Scheduled:
    def __init__(self, optimizer, warm_up):
        self.optimizer = optimizer
        self.warm_up = warm_up

    def step(self):
        self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad()


def main():
    FLAG = len(sys.argv) < 2
    PLACE = torch.device("cuda" if FLAG else "cpu")
    model = Net().to(PLACE)
    head = nn.Linear(8, 8).to(PLACE)
    optimizer = Scheduled(torch.optim.SGD(TRAINED.parameters(), lr=0.1), 10)
    NAME(MODELS, optimizer, PLACE, [(torch.randn(4, 8), torch.ones(4, 8))])


main()
"""
ONE = SCRIPT.replace("NAME", "train").replace("TRAINED", "model").replace("MODELS", "model")
TWO = SCRIPT.replace("NAME", "train_head").replace("TRAINED", "head").replace("MODELS", "model, head")


@pytest.mark.parametrize(("flag", "place"), [("use_cuda", "device"), ("on_gpu", "device"), ("on_gpu", "where")])
def test_each_has_its_own(tmp_path, flag, place):
    scripts = {"one.py": ONE.replace("FLAG", "use_cuda").replace("PLACE", "device")}
    scripts |= {"two.py": TWO.replace("FLAG", flag).replace("PLACE", place), "trainings.py": TRAININGS}
    write_tree(tmp_path, {name: text.encode() for name, text in scripts.items()})
    results = {one.path.rpartition("/")[2]: one for one in migrate_project([tmp_path], Options(api="torch.amp"))}
    assert {one.status for one in results.values()} == {"migrated"}, [one.findings for one in results.values()]
    for name, (own, where) in {"one.py": ("use_cuda", "device"), "two.py": (flag, place)}.items():
        output = results[name].output.decode()
        assert f"enabled={own})" in output or f'enabled={where}.type == "cuda")' in output


def test_a_step_of_the_other_is_not_left_out_where_one_script_runs_both(tmp_path):
    script = (
        ONE.replace("Net, train\n", "Net, train, train_head\n").replace("FLAG", "use_cuda").replace("PLACE", "device")
    )
    both = script.replace("\n\nmain()", "    train_head(model, head, optimizer, device, [])\n\n\nmain()")
    write_tree(tmp_path, {"one.py": both.encode(), "trainings.py": TRAININGS.encode()})
    results = {one.path.rpartition("/")[2]: one for one in migrate_project([tmp_path], Options(api="torch.amp"))}
    assert results["trainings.py"].output.decode().count("scaler.scale(loss).backward()") == 2
