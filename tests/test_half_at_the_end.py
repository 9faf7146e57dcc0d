"""A trained model that is cast to half to be saved: nothing trains it any more."""

from __future__ import annotations

import pytest

from amp_migrate import migrate_project
from tests.unit_fixture import write_tree

LEARNING = """\
import torch


class Learner:
    def __init__(self, model, optimizer, loader):
        self.model = model
        self.optimizer = optimizer
        self.loader = loader

    def train(self):
        for x, y in self.loader:
            loss = torch.nn.functional.cross_entropy(self.model(x.cuda()), y.cuda())
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
"""
HEAD = "import torch\nfrom learning import Learner\n\n\n"
MAKE = "model = torch.nn.Linear(3, 2).cuda()\n"
FIT = "optimizer = torch.optim.AdamW(model.parameters())\nLearner(model, optimizer, loader).train()\n"
HALF = "model.half()\n"
SAVE = 'torch.save(model.state_dict(), "half.pth")\n'
FUNCTION = "def main(loader):\n"
LOOP = "for fold in range(3):\n"
TRAIN = f"{HEAD}def main(loader):\n    {MAKE}    {FIT.replace(chr(10), chr(10) + '    ').rstrip()}\n"


def _below(head, *parts):
    return head + "".join(f"    {line}\n" for part in parts for line in part.splitlines())


def _migrated(folder, script):
    files = {"learning.py": LEARNING, "train.py": TRAIN, "finetune.py": HEAD + script}
    write_tree(folder, {name: text.encode() for name, text in files.items()})
    return {result.path.removeprefix(f"{folder}/"): result for result in migrate_project(str(folder))}


@pytest.mark.parametrize(
    "script",
    [
        _below(FUNCTION, MAKE, FIT, HALF, SAVE),
        _below(FUNCTION, _below(LOOP, MAKE, FIT, HALF, SAVE)),
        _below(FUNCTION, _below(LOOP, MAKE, FIT, "model.half().cpu()\n", 'torch.save(model, "half.pth")\n')),
        "loader = []\n" + _below(LOOP, MAKE, FIT, HALF, SAVE),
        _below('if __name__ == "__main__":\n', "loader = []\n", _below(LOOP, MAKE, FIT, HALF, SAVE)),
    ],
)
def test_a_cast_after_the_last_step_is_none_of_the_training(tmp_path, script):
    results = _migrated(tmp_path, script)
    assert {name: result.status for name, result in results.items() if name != "learning.py"} == {
        "train.py": "untouched",
        "finetune.py": "untouched",
    }
    assert 'GradScaler("cuda")' in results["learning.py"].output.decode()


@pytest.mark.parametrize(
    "script",
    [
        _below(FUNCTION, MAKE, HALF, FIT, SAVE),
        _below(FUNCTION, MAKE, FIT, HALF, SAVE, FIT),
        _below(FUNCTION, MAKE, _below(LOOP, FIT, HALF, SAVE)),  # the next round trains it in half
        _below(FUNCTION, MAKE, FIT, HALF, "return model\n"),
        _below(FUNCTION, MAKE, FIT, HALF, "go_on(model)\n"),
        _below("def main(loader, model):\n", FIT, HALF, SAVE),
    ],
)
def test_any_other_cast_is_one(tmp_path, script):
    results = _migrated(tmp_path, script)
    is_in_half = b".half()" in results["finetune.py"].output
    assert not is_in_half or results["learning.py"].status == "left"


def test_the_name_of_a_module_is_that_of_one_file(tmp_path):
    script = _below('if __name__ == "__main__":\n', "loader = []\n", MAKE, HALF, FIT)
    files = {"learning.py": LEARNING, "finetune.py": HEAD + script}
    write_tree(tmp_path, {name: text.encode() for name, text in files.items()})
    results = {result.path.removeprefix(f"{tmp_path}/"): result for result in migrate_project(str(tmp_path))}
    assert "__name__" not in results["learning.py"].output.decode()
    assert "GradScaler" in results["finetune.py"].output.decode()
