"""Trainings of several scripts stand in one file: their guards need not agree, since no program runs two of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import migrate_project
from tests.unit_fixture import write_tree

BACKWARD = """
        loss = F.cross_entropy(self.model(x), y)
        optimizer.zero_grad()
        if GUARD:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
"""
TRAINERS = f"""\
from torch.nn import functional as F
from apex import amp


class Pre:
    def __init__(self, model, fp16=False):
        self.model = model
        self.fp16 = fp16

    def train(self, x, y, optimizer):{BACKWARD.replace("GUARD", "self.fp16")}

class Tuner:
    def __init__(self, model):
        self.model = model

    def train(self, x, y, optimizer, fp16=False):{BACKWARD.replace("GUARD", "fp16")}
"""
HEAD = """\
import argparse

import torch
from apex import amp
from torch import nn

from trainers import Pre, Tuner

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()
"""
BUILD = """
model = nn.Linear(16, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if args.fp16:
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
"""
PRE = """
trainer = Pre(model, args.fp16)
for _ in range(5):
    trainer.train(torch.randn(8, 16).cuda(), torch.randint(0, 4, (8,)).cuda(), optimizer)
"""
TUNE = PRE.replace("Pre(model, args.fp16)", "Tuner(model)").replace("optimizer)", "optimizer, args.fp16)")


def _of(head: str, text: str) -> str:
    return f"\n\ndef {head}:" + text.replace("\n", "\n    ").rstrip() + "\n"


def _script(form: str, loop: str) -> str:
    if form == "at the top":
        return HEAD + BUILD + loop
    if form == "in a function":
        return HEAD + _of("main()", BUILD + loop) + "\n\nmain()\n"
    build = _of("build()", f"{BUILD}return model, optimizer")
    return HEAD + build + _of("main()", f"\nmodel, optimizer = build(){loop}") + "\n\nmain()\n"


FORMS = ["at the top", "in a function", "set up by another function"]


def _migrated(folder: Path, scripts: dict[str, str]):
    write_tree(folder, {name: text.encode() for name, text in {"trainers.py": TRAINERS, **scripts}.items()})
    return {Path(one.path).name: one for one in migrate_project([folder])}


@pytest.mark.parametrize("form", FORMS)
def test_each_has_its_guard(tmp_path: Path, form: str):
    results = _migrated(tmp_path, {"pretrain.py": _script(form, PRE), "tune.py": _script(form, TUNE)})
    output = results["trainers.py"].output.decode()
    said = [finding.message for one in results.values() for finding in one.findings]
    assert "enabled=self.fp16)" in output and "enabled=fp16)" in output, said
    assert output.count(".scale(loss).backward()") == output.count("caler.step(optimizer)") == 2
    assert all(one.status == "migrated" for one in results.values())


@pytest.mark.parametrize("form", FORMS)
def test_a_program_that_runs_both_is_left(tmp_path: Path, form: str):
    results = _migrated(tmp_path, {"pretrain.py": _script(form, PRE), "both.py": _script(form, PRE + TUNE)})
    assert all(one.status == "left" for one in results.values())


def test_a_function_that_sets_up_for_two_is_not_taken_apart(tmp_path: Path):
    build = HEAD + _of("build()", f"{BUILD}return model, optimizer")
    scripts = {
        name: "import torch\nfrom build import args, build\nfrom trainers import Pre, Tuner\n"
        + _of("main()", f"\nmodel, optimizer = build(){loop}")
        + "\n\nmain()\n"
        for name, loop in {"pretrain.py": PRE, "tune.py": TUNE}.items()
    }
    results = _migrated(tmp_path, {"build.py": build, **scripts})
    assert not any(one.changed for one in results.values())
