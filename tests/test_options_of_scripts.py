"""Scripts of one unit that declare an option of the same name: each reads its own, and one can lose it alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

TRAIN = """\
import argparse
import torch
import torch.nn as nn
from apex.optimizers import FP16_Optimizer, FusedAdam
import utils

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", {declared})


if __name__ == "__main__":
    args = parser.parse_args()
    model = nn.Linear(10, 2).cuda()
    if args.fp16:
        model.half()
        optimizer = FP16_Optimizer(FusedAdam(model.parameters(), lr=1e-3), dynamic_loss_scale=True)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    utils.load("m.pth", model, optimizer)
    for x, y in [(torch.randn(8, 10), torch.randint(0, 2, (8,)))]:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        if args.fp16:
            optimizer.backward(loss)
        else:
            loss.backward()
        optimizer.step()
    torch.save({{"model": model.state_dict(), "optim": optimizer.state_dict()}}, "m.pth")
"""
EVALUATE = """\
import argparse
import torch
import torch.nn as nn
import utils

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", {declared})
if __name__ == "__main__":
    args = parser.parse_args()
    model = nn.Linear(10, 2).cuda()
    utils.load("m.pth", model)
    if args.fp16:
        model.half()
    model.eval()
    print(model(torch.ones(3, 10).cuda().type(next(model.parameters()).dtype)).argmax(1).tolist())
"""
UTILS = """\
import torch


def load(path, model, optimizer=None):
    checkpoint = torch.load(path)
    model.load_state_dict(checkpoint["model"])
    if optimizer:
        optimizer.load_state_dict(checkpoint["optim"])
"""
BOOL, NUMBER = 'action="store_true"', "type=int, default=0"


@pytest.mark.parametrize("evaluate", ["a.py", "zz.py"])
@pytest.mark.parametrize(
    ("declared", "other", "enabled"),
    [(BOOL, BOOL, "args.fp16"), (BOOL, NUMBER, "args.fp16"), (NUMBER, BOOL, "bool(args.fp16)")],
)
def test_an_option_is_what_its_own_script_declares(tmp_path, evaluate, declared, other, enabled):
    """One that another script makes a flag is none here: `autocast(enabled=0)` raises."""
    script = TRAIN.format(declared=declared)
    tree = {"train.py": script, evaluate: EVALUATE.format(declared=other), "utils.py": UTILS}
    results = migrated(tmp_path, tree)
    output = (results["train.py"].output or b"").decode()
    assert f"enabled={enabled})" in next(line for line in output.splitlines() if "GradScaler(" in line)


@pytest.mark.parametrize("lost", [True, False])
def test_an_option_is_lost_by_one_script_alone(tmp_path, lost):
    """Evaluation ran in half under it, and runs in float32 now; the training still reads its own."""
    shared = "" if lost else "\n\ndef is_half(args):\n    return args.fp16\n"
    tree = {"train.py": TRAIN.format(declared=BOOL), "evaluate.py": EVALUATE.format(declared=BOOL)}
    results = migrated(tmp_path, {**tree, "utils.py": UTILS + shared})
    found = [(path, one.line) for path, result in results.items() for one in result.findings if one.code == "AMP103"]
    assert found == ([("evaluate.py", 7)] if lost else [])
    assert b".half()" not in (results["evaluate.py"].output or b".half()")


def migrated(folder, tree):
    write_tree(folder, {path: source.encode() for path, source in tree.items()})
    return {Path(result.path).name: result for result in migrate_project([folder], Options(api="torch.amp"))}
