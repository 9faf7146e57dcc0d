"""Two setups in one program: a training, and then inference of a model of its own under a condition of its own."""

from __future__ import annotations

import pytest

from amp_migrate import migrate_project
from amp_migrate.check.proof import Prover
from tests.unit_fixture import write_tree

MAIN = """\
import argparse

from evaluate import evaluate
from train import fit


def main(config, loader):
    parser = argparse.ArgumentParser()
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--fp16", action="store_true")
    args = parser.parse_args()
    fit(args, config, loader)
    if args.test:
        evaluate(args, config, loader)
"""
TRAINER = """\
import torch
from apex import amp


def train(net, optimizer, loader, fp16=False):
    for x in loader:
        loss = net(x).mean()
        optimizer.zero_grad()
        if fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
"""
TRAIN = """\
import torch
from apex import amp
from trainer import train


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x)


def fit(args, config, loader):
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if config.TRAIN.FP16:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    train(model, optimizer, loader, fp16=config.TRAIN.FP16)
    return model
"""
EVALUATE = """\
import torch
from apex import amp
from train import Net


@torch.no_grad()
def evaluate(args, config, loader):
    model = Net().cuda()
    {setup}
    model.eval()
    for x in loader:
        outputs = model(x)
        print(outputs.float().mean().item())
"""
ONE = 'if args.fp16:\n        model = amp.initialize(model, opt_level="O1")'
LIST = 'if args.fp16:\n        [model] = amp.initialize([model], opt_level="O1")'
ALWAYS = 'model = amp.initialize(model, opt_level="O1")'
LEVEL = 'model = amp.initialize(model, opt_level="O1" if args.fp16 else "O0")'
ENABLED = 'model = amp.initialize(model, opt_level="O1", enabled=args.fp16)'
AROUND = 'if args.fp16 and len(loader) > 3:\n        model = amp.initialize(model, opt_level="O1")'


def _migrated(folder, setup):
    files = {"main.py": MAIN, "trainer.py": TRAINER, "train.py": TRAIN, "evaluate.py": EVALUATE.format(setup=setup)}
    write_tree(folder, {name: text.encode() for name, text in files.items()})
    return {result.path.removeprefix(f"{folder}/"): result for result in migrate_project(str(folder))}


@pytest.mark.parametrize(
    "setup, enabled",
    [
        (ONE, ", enabled=args.fp16"),
        (LIST, ", enabled=args.fp16"),
        (ALWAYS, ""),
        (LEVEL, ", enabled=args.fp16"),
        (ENABLED, ", enabled=args.fp16"),
    ],
)
def test_a_forward_belongs_to_the_setup_of_its_model(tmp_path, setup, enabled):
    results = _migrated(tmp_path, setup)
    assert {name: one.status for name, one in results.items()} == {
        "main.py": "untouched",
        "trainer.py": "migrated",
        "train.py": "migrated",
        "evaluate.py": "migrated",
    }
    region = f'        with torch.amp.autocast("cuda"{enabled}):\n            outputs = model(x)\n'
    assert region in results["evaluate.py"].output.decode()
    assert "enabled=bool(config.TRAIN.FP16)" in results["train.py"].output.decode()


def test_the_model_of_the_training_has_its_condition(tmp_path):
    results = _migrated(tmp_path, "pass")
    assert "args.fp16" not in results["evaluate.py"].output.decode()


@pytest.mark.parametrize(
    "place, right, wrong",
    [
        ("evaluate.py", "enabled=args.fp16", "enabled=config.TRAIN.FP16"),
        ("evaluate.py", ", enabled=args.fp16", ""),
        ("evaluate.py", "enabled=args.fp16", "enabled=not args.fp16"),
        ("train.py", "enabled=bool(config.TRAIN.FP16)", "enabled=args.fp16"),
        ("train.py", "fp16=config.TRAIN.FP16", "fp16=args.fp16"),
    ],
)
def test_the_condition_of_the_other_is_a_breach(tmp_path, place, right, wrong):
    results = _migrated(tmp_path, ONE)
    trees = [{path: getattr(one, side) for path, one in results.items()} for side in ("source", "output")]
    changed = [name for name, one in results.items() if one.changed]
    assert not Prover(*trees).prove(changed).breaches
    assert right.encode() in trees[1][place]
    trees[1][place] = trees[1][place].replace(right.encode(), wrong.encode())
    assert Prover(*trees).prove(changed).breaches
