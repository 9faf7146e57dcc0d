"""A class that trains has a method that moves it to the GPU: the script that calls it decides, in a file of its own."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project, migrate_source

WRAPPER = """\
import torch
from torch import nn
from torch.nn import functional as F


class Model:
    def __init__(self, args):
        self.args = args
        self.network = nn.Linear(args.inputs, 4)

    def init_optimizer(self):
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1)

    def update(self, x, y):
        INPUTS
        loss = F.cross_entropy(self.network(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    MOVE
"""
SCRIPT = """\
import argparse

import torch
from wrapper import Model


def main(args):
    model = Model(args)
    model.init_optimizer()
    MOVED
    for _ in range(3):
        model.update(torch.randn(8, args.inputs), torch.randint(4, (8,)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=8)
    parser.add_argument("--cuda", action="store_true")
    args = parser.parse_args()
    args.cuda = args.cuda and torch.cuda.is_available()
    main(args)
"""
BY_FLAG = "if self.use_cuda:\n            x, y = x.cuda(), y.cuda()"
BY_WEIGHTS = "if next(self.network.parameters()).is_cuda:\n            x, y = x.cuda(), y.cuda()"
BY_DEVICE = "x, y = x.to(self.device), y.to(self.device)"
CUDA = "def cuda(self):\n        self.use_cuda = True\n        self.network.cuda()"
WHERE = "def to(self, device='cuda'):\n        self.device = device\n        self.network.to(device)"
MOVED = "if args.cuda:\n        model.cuda()"
CHOSEN = "model.to('cuda' if args.cuda else 'cpu')"


def scripts(tmp_path, inputs, move, *moved, wrapper=WRAPPER):
    files = {"wrapper.py": wrapper.replace("INPUTS", inputs).replace("MOVE", move)}
    files |= {f"script{number}.py": SCRIPT.replace("MOVED", one) for number, one in enumerate(moved)}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    results = migrate_project([tmp_path / name for name in files], Options(api="torch.amp"))
    return "".join(one.output.decode() for one in results), [found.code for one in results for found in one.findings]


@pytest.mark.parametrize("inputs", [BY_FLAG, BY_WEIGHTS])
def test_what_the_script_asks_before_it_moves_the_model_switches_the_scaler(tmp_path, inputs):
    output, findings = scripts(tmp_path, inputs, CUDA, MOVED)
    assert 'GradScaler("cuda", enabled=bool(args.cuda))' in output, findings


@pytest.mark.parametrize("first", ["", "self.device = None\n        "])
def test_a_device_that_a_later_call_sets_is_not_asked_before(tmp_path, first):
    source = WRAPPER.replace("self.args", f"{first}self.args")
    output, findings = scripts(tmp_path, BY_DEVICE, WHERE, CHOSEN, wrapper=source)
    assert "enabled=bool(args.cuda)" in output, findings


def test_one_script_moves_the_model_in_any_case_and_another_does_not(tmp_path):
    output, findings = scripts(tmp_path, BY_WEIGHTS, CUDA, MOVED, "model.cuda()")
    assert "GradScaler" not in output
    assert set(findings) == {"AMP901"}


def test_no_script_is_in_sight():
    source = WRAPPER.replace("INPUTS", BY_WEIGHTS).replace("MOVE", CUDA)
    assert [one.code for one in migrate_source(source.encode(), Options(api="torch.amp")).findings] == ["AMP966"]
