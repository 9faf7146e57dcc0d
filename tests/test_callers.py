"""Who runs a training that stands in another file: by a name of several modules, by a wrapper, out of a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import migrate_project
from tests.unit_fixture import write_tree

NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 8)

    def forward(self, x):
        return self.fc(x)
"""
TRAINER = """\
import torch


class Appr(object):
    def __init__(self, model, lr={lr}):
        self.model = model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)

    def train_epoch(self, batches):
        for x in batches:
            loss = self.model(x.cuda()).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
RUN = """\
import sys

import torch

import net

name = sys.argv[1]
{imports}
model = net.Net().cuda()
appr = {make}(model)
for _ in range(2):
    appr.train_epoch([torch.randn(4, 4)])
"""
ARMS = "if name == 'a':\n    {}\nelif name == 'b':\n    {}\n"
SEVERAL = {
    "from a package": (("from pkg import a as it", "from pkg import b as it"), "it.Appr"),
    "by a full name": (("import pkg.a as it", "import pkg.b as it"), "it.Appr"),
    "the classes": (("from pkg.a import Appr", "from pkg.b import Appr"), "Appr"),
    "the classes under a name": (("from pkg.a import Appr as Made", "from pkg.b import Appr as Made"), "Made"),
    "one of them tried": (("import pkg.a as it", "try:\n        import pkg.b as it\n    except: pass"), "it.Appr"),
}


def migrated(folder: Path, **files: str) -> tuple[dict[str, str], list[str]]:
    """The files that change, by their names, and the codes that are said."""
    written = {name.replace("__", "/") + ".py": text.encode() for name, text in files.items()}
    write_tree(folder, {**written, "pkg/__init__.py": b"", "net.py": NET.encode()})
    results = migrate_project([folder])
    changed = {Path(one.path).name: one.output.decode() for one in results if one.changed}
    return changed, [finding.code for one in results for finding in one.findings]


def approaches(name: str, **modules: str) -> dict[str, str]:
    (first, second), make = SEVERAL[name]
    files = {"pkg__a": TRAINER.format(lr=0.1), "pkg__b": TRAINER.format(lr=0.2)}
    return {**files, "run": RUN.format(imports=ARMS.format(first, second), make=make), **modules}


@pytest.mark.parametrize("name", SEVERAL)
def test_a_name_of_several_modules_means_each(name: str, tmp_path: Path) -> None:
    changed, said = migrated(tmp_path, **approaches(name))
    assert changed.keys() == {"a.py", "b.py"} and said == []
    assert all("self.scaler.scale(loss).backward()" in text for text in changed.values())


@pytest.mark.parametrize("name", SEVERAL)
def test_nor_need_each_of_them_train(name: str, tmp_path: Path) -> None:
    chance = "class Appr(object):\n    def __init__(self, model, lr=1):\n        self.model = model\n"
    changed, said = migrated(tmp_path, **approaches(name, pkg__b=chance))
    assert changed.keys() == {"a.py"} and said == []


@pytest.mark.parametrize("name", SEVERAL)
def test_not_where_one_cannot_be_read(name: str, tmp_path: Path) -> None:
    changed, said = migrated(tmp_path, **approaches(name, pkg__b="def broken(:\n"))
    assert changed == {} and "AMP951" in said


FUNCTION = """\
import torch


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches:
        loss = model(x.cuda()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


"""
CHOOSE = "def choose(model, batches, method):\n    if method == 'it':\n        {}(model, batches)\n"
SCRIPT = """\
import sys

from net import Net
from pkg.uda import {0}


def main():
    model = Net().cuda()
    {1}


main()
"""
WRAPPED = {
    "by one": (CHOOSE.format("train"), "choose", "choose(model, [], sys.argv[1])"),
    "by two": (
        CHOOSE.format("one") + "\n\ndef one(model, batches):\n    train(model, batches)\n",
        "choose",
        "choose(model, [], sys.argv[1])",
    ),
    "by a method": (
        "class Runner:\n    def run(self, model, batches):\n        train(model, batches)\n",
        "Runner",
        "Runner().run(model, [])",
    ),
    "by a constructor": (
        "class Runner:\n    def __init__(self, model):\n        self.model = model\n\n"
        "    def run(self, batches):\n        train(self.model, batches)\n",
        "Runner",
        "Runner(model).run([])",
    ),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapper_beside_the_training_has_callers(name: str, tmp_path: Path) -> None:
    wrapper, imported, call = WRAPPED[name]
    script = SCRIPT.format(imported, call)
    changed, said = migrated(tmp_path, pkg__uda=FUNCTION + wrapper, scripts__run=script)
    assert changed.keys() == {"uda.py"} and said == []
    assert "scaler.scale(loss).backward()" in changed["uda.py"]


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("broken", ["def broken(:\n", "from pkg import uda\n"])
def test_not_where_no_caller_can_be_read(name: str, broken: str, tmp_path: Path) -> None:
    changed, said = migrated(tmp_path, pkg__uda=FUNCTION + WRAPPED[name][0], scripts__run=broken)
    assert changed == {} and "AMP951" in said
