"""A class that steps and a class that makes the optimizer are bases of one that is made: `self` is the same in both."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from amp_migrate import Options, migrate_project, migrate_source
from tests.drawn.run import CLOSE, run
from tests.unit_fixture import write_tree

HEAD = "import torch\nfrom torch import nn\n"
STEPS = """

class Steps:
    def step(self, x):
        self.optimizer.zero_grad()
        self.loss = nn.functional.cross_entropy(self.network(x), x.argmax(1))
        self.loss.backward()
        self.optimizer.step()
        print("loss", self.loss.item())
"""
MODELS = """

class Models:
    def build(self):
        self.network = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).cuda()
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1)
"""
TRAINER = """

class Trainer(BASES):
    def run(self):
        for _ in range(3):
            self.step(torch.randn(4, 8).cuda())
"""
MAIN = """

torch.manual_seed(0)
trainer = Trainer()
trainer.build()
trainer.run()
"""
ORDERS = [", ".join(names) for names in itertools.permutations(("Models", "Steps"))]


@pytest.mark.parametrize("bases", [*ORDERS, "Log, Models, Steps", "Log, Steps, Models"])
def test_what_one_makes_the_other_steps(bases):
    log = "\n\nclass Log:\n    def say(self):\n        print(self.loss)\n" if "Log" in bases else ""
    source = HEAD + STEPS + MODELS + log + TRAINER.replace("BASES", bases) + MAIN
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert "scaler.scale(self.loss).backward()" in output and "scaler.step(self.optimizer)" in output
    before, after = run(source), run(output)
    assert not after.error and after.losses[0] == pytest.approx(before.losses[0], rel=CLOSE)


def test_a_base_of_two_that_are_made_is_not_one_of_them():
    other = "\n\nclass Other(Clock, Steps):\n    pass\n\n\nclass Clock:\n    pass\n"
    source = HEAD + STEPS + MODELS + TRAINER.replace("BASES", "Models, Steps") + other + MAIN
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert result.status == "left"


@pytest.mark.parametrize("bases", ORDERS)
def test_each_base_may_have_a_file(tmp_path: Path, bases: str):
    imports = "from models import Models\nfrom steps import Steps\n"
    files = {
        "steps.py": HEAD + STEPS,
        "models.py": HEAD + MODELS,
        "main.py": HEAD + imports + TRAINER.replace("BASES", bases) + MAIN,
    }
    write_tree(tmp_path, {name: text.encode() for name, text in files.items()})
    results = {Path(one.path).name: one for one in migrate_project([tmp_path])}
    assert b".scale(self.loss).backward()" in results["steps.py"].output, [
        finding.message for one in results.values() for finding in one.findings
    ]
