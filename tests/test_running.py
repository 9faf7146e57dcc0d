"""Hooks that nobody switches on do not keep a training in float32."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import Options, migrate_project, migrate_source
from tests.unit_fixture import write_tree

SCRIPT = """\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self{parameter}):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        {set}
        {switch}

    def add_hook(self):
        self.fc.register_full_backward_hook(print)

    def forward(self, x):
        return self.fc(x)


model = {made}.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(8, 4).cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
USUAL = {"parameter": ", watch=False", "set": "self.watch = watch", "switch": "if self.watch: self.add_hook()"}
OFF = {
    "by default": {"made": "Net()"},
    "by the caller": {"made": "Net(watch=False)", "parameter": ", watch=True"},
    "by position": {"made": "Net(False)"},
    "after a question": {"made": "Net()", "switch": "if hasattr(self, 'watch') and self.watch: self.add_hook()"},
    "in the other arm": {"made": "Net()", "switch": "if not self.watch: pass\n        else: self.add_hook()"},
    "in the expression": {"made": "Net()", "switch": "self.watch and self.add_hook()"},
    "as a choice": {"made": "Net()", "switch": "self.add_hook() if self.watch else None"},
    "by leaving": {"made": "Net()", "switch": "if not self.watch:\n            return\n        self.add_hook()"},
    "None": {"made": "Net()", "parameter": ", watch=None", "switch": "if self.watch is not None: self.add_hook()"},
    "a mode": {
        "made": "Net('loss')",
        "parameter": ", watch='all'",
        "switch": "if self.watch == 'all': self.add_hook()",
    },
    "another class is made": {"made": "nn.Linear(len('Net') + 1, 4)", "switch": "self.add_hook()"},
    "a parameter": {"made": "Net()", "set": "", "switch": "if watch: self.add_hook()"},
}
ON = {
    "by default": {"made": "Net()", "parameter": ", watch=True"},
    "by the caller": {"made": "Net(watch=True)"},
    "by one of two callers": {"made": "(Net(), Net(True))[1]"},
    "by an option": {"made": "Net(bool(input()))"},
    "by a switch": {
        "made": "Net(WATCH)",
        "switch": "if self.watch: self.add_hook()\n\n\nWATCH = False\n\nclass Net(Net):",
    },
    "by settings": {"made": "Net(**dict(watch=True))"},
    "later": {"made": "Net()", "switch": "self.watch = True\n        if self.watch: self.add_hook()"},
    "by name": {"made": "Net()", "switch": "setattr(self, input(), 1)\n        if self.watch: self.add_hook()"},
    "in the class": {"made": "Net()", "set": "", "switch": "if self.watch: self.add_hook()\n\n    watch = True"},
    "by a loop": {"made": "Net()", "switch": "for self.watch in [1]: self.watch and self.add_hook()"},
    "by a registry": {
        "made": "Net()",
        "switch": "if watch: self.add_hook()\n\n\nregister = print\n\n"
        "@register\nclass Loud(Net):\n    def __init__(self):\n        super().__init__()\n",
    },
    "by the names of the file": {"made": "globals()['Net'](True)"},
    "by a class that is handed on": {"made": "open_maker(Net)", "switch": "self.add_hook()"},
    "by a derived class": {
        "made": "Loud()",
        "switch": "self.watch and self.add_hook()\n\n\nclass Loud(Net):\n"
        "    def __init__(self):\n        super().__init__(True)\n",
    },
    "in any case": {"made": "Net()", "switch": "self.add_hook()"},
    "by a bound method": {"made": "Net()", "switch": "self.apply(lambda _: self.add_hook())"},
    "as a value": {"made": "Net()", "switch": "self.later = self.add_hook\n        if self.watch: self.add_hook()"},
}


def migrated(**parts: str) -> tuple[str, list[str]]:
    result = migrate_source(SCRIPT.format(**{**USUAL, **parts}).encode(), Options(api="torch.amp"))
    return result.output.decode(), [finding.code for finding in result.findings]


@pytest.mark.parametrize("name", OFF)
def test_what_nobody_switches_on_is_migrated(name):
    output, findings = migrated(**OFF[name])
    assert "scaler.scale(loss)" in output and findings == []


@pytest.mark.parametrize("name", ON)
def test_what_may_run_is_left(name):
    output, findings = migrated(**ON[name])
    assert "scaler" not in output and "AMP958" in findings


OTHERS = {
    "names what is set": ("Net()", "model = Net(watch=True)\n", "left"),
    "sets it": ("Net()", "model = Net()\nmodel.watch = True\n", "left"),
    "gives a model": ("Net()", "train(Net(True))\n", "left"),
    "has a model of its own": ("Net()", "model = Net(True)\n", "migrated"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_may_switch_it_on(name: str, tmp_path: Path) -> None:
    made, other, expected = OTHERS[name]
    script = SCRIPT.format(**{**USUAL, "made": made})
    if name == "gives a model":
        setup, loop = script.split("model = ")
        loop = "\n".join("    " + line for line in loop.splitlines()[1:])
        script = (
            f"{setup}def train(model):\n    model.cuda()\n{loop}\n\n\nif __name__ == '__main__':\n    train(Net())\n"
        )
    files = {"train.py": script.encode(), "other.py": f"from train import *\n\n{other}".encode()}
    write_tree(tmp_path, files)
    result = next(one for one in migrate_project([tmp_path]) if Path(one.path).name == "train.py")
    codes = ["AMP958"] if expected == "left" else []
    assert result.status == expected and [one.code for one in result.findings] == codes


def test_a_trainer_that_nobody_makes_in_sight_has_what_its_network_switches_on():
    script = SCRIPT.format(**{**USUAL, "made": "Net(watch=True)"})
    classes, loop = script.split("model = ")
    loop = "".join(f"        {line}\n" for line in f"self.model = {loop}".replace("model(", "self.model(").splitlines())
    trainer = f"{classes}class Trainer:\n    def __init__(self):\n{loop.replace('model.p', 'self.model.p')}"
    assert [one.code for one in migrate_source(trainer.encode(), Options(api="torch.amp")).findings] == ["AMP958"]
