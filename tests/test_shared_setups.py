"""Several programs that share what makes their optimizer: all of them are migrated, or none, and never in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import Result, migrate_project
from tests.drawn.run import run
from tests.unit_fixture import write_tree

SHARED = """import torch


def stage(model, fp16, device):
    if fp16:
        model.half()
    return model.to(device)


def create(model, fp16):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if fp16:
        from apex.fp16_utils import FP16_Optimizer
        optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
    return optimizer
"""
RUNNER = """import torch


def accuracy(logits, labels):
    return (logits.argmax(1) == labels).float().mean().item()


class Runner:
    def __init__(self, model, optimizer, device, fp16):
        self.model = model
        self.optimizer = optimizer
        self.device = device
        self.fp16 = fp16

    def run(self, batches):
        for x, y in batches:
            print("loss", self.step(x, y))

    def test(self, x, y):
        with torch.no_grad():
            return accuracy(self.model(x.to(self.device)).cpu(), y)

    def run_twice(self, batches):
        for _ in range(2):
            self.run(batches)

    def step(self, x, y):
        loss = torch.nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
        if self.fp16:
            self.optimizer.backward(loss)
        else:
            loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()
"""
DERIVED = """from runner import Runner


class Doubled(Runner):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def batches(self, batches):
        return [*batches, *batches]
"""
OTHER_RUNNER = RUNNER.replace("class Runner", "class OtherRunner").replace(
    RUNNER[RUNNER.index("def accuracy") : RUNNER.index("class")], "from runner import accuracy\n\n\n"
)
TRAIN = """import argparse

import torch

import shared
from runner import Runner


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = shared.stage(torch.nn.Linear(4, 3), args.fp16, device)
    optimizer = shared.create(model, args.fp16)
    runner = Runner(model, optimizer, device, args.fp16)
    runner.run([(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(3)])


if __name__ == "__main__":
    main()
"""
OTHER = TRAIN.replace("from runner import Runner", "from other_runner import OtherRunner").replace(
    " = Runner", " = OtherRunner"
)
TREE = {
    "shared.py": SHARED,
    "runner.py": RUNNER,
    "derived.py": DERIVED,
    "train.py": TRAIN,
    "other_runner.py": OTHER_RUNNER,
    "other.py": OTHER,
}


def migrated(root: Path, **changed: str) -> dict[str, Result]:
    files = TREE | {f"{name}.py": source for name, source in changed.items()}
    (root / ".git").mkdir()
    write_tree(root, {name: source.encode() for name, source in files.items()})
    return {Path(one.path).name: one for one in migrate_project([root])}


def losses(root: Path, script: str, *arguments: str) -> tuple[float, ...]:
    source = f"import sys\nsys.path.insert(0, {str(root)!r})\n" + (root / script).read_text()
    done = run(source, arguments)
    assert not done.error, (script, arguments, done)
    return done.losses


def test_all_programs_that_make_their_optimizer_by_one_function_are_migrated(tmp_path: Path) -> None:
    results = migrated(tmp_path)
    assert {"shared.py", "runner.py", "other_runner.py"} <= {name for name, one in results.items() if one.changed}
    before = {script: losses(tmp_path, script) for script in ("train.py", "other.py")}
    for name, one in results.items():
        (tmp_path / name).write_bytes(one.output)
    for script, plain in before.items():
        assert losses(tmp_path, script) == plain
        assert losses(tmp_path, script, "--fp16") == pytest.approx(plain, abs=0.02)


def test_one_program_that_cannot_be_migrated_keeps_the_others_with_a_reason(tmp_path: Path) -> None:
    unknown = OTHER_RUNNER.replace(
        "        return loss", "        self.optimizer.fp32_from_fp16_groups.clear()\n        return loss"
    )
    results = migrated(tmp_path, other_runner=unknown)
    assert not any(one.changed for one in results.values())
    assert [finding for one in results.values() for finding in one.findings]


def test_a_method_that_a_base_class_out_of_sight_may_call_gets_no_parameter(tmp_path: Path) -> None:
    framework = "from framework import Base\n"
    based = framework + RUNNER.replace("class Runner:", "class Runner(Base):")
    results = migrated(tmp_path, runner=based)
    assert not any(one.changed for one in results.values())
    assert "AMP914" in {finding.code for one in results.values() for finding in one.findings}


def test_a_derived_class_that_trains_by_itself_is_never_left_behind(tmp_path: Path) -> None:
    step = RUNNER[RUNNER.index("    def step") :]
    results = migrated(tmp_path, derived="import torch\n" + DERIVED + "\n" + step)
    assert not results["runner.py"].changed or results["derived.py"].changed
    assert any(one.changed or one.findings for one in results.values())


def test_a_script_without_a_gpu_that_trains_by_the_same_class_is_named(tmp_path: Path) -> None:
    on_cpu = """import torch

from runner import Runner

model = torch.nn.Linear(4, 3)
runner = Runner(model, torch.optim.SGD(model.parameters(), lr=0.1), "cpu", False)
runner.run([(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(3)])
"""
    results = migrated(tmp_path, on_cpu=on_cpu)
    assert not any(one.changed for one in results.values())
    said = [finding.message for one in results.values() for finding in one.findings]
    assert any("on_cpu.py" in message for message in said), said


TRAINERS = """import torch


class Trainer:
    def __init__(self, model, device):
        self.model = model.to(device)
        self.device = device
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, x, y):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Optim:
    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.1)

    def step(self):
        for parameter in self.parameters:
            parameter.data.add_(parameter.grad, alpha=-0.01)
        self.optimizer.step()
        self.optimizer.zero_grad()
"""
BY_TRAINER = """import torch

from trainers import Trainer

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
trainer = Trainer(torch.nn.Linear(4, 3), device)
for _ in range(3):
    print("loss", trainer.train(torch.randn(8, 4), torch.randint(0, 3, (8,))))
"""
BY_OPTIM = """import torch

from trainers import Optim
{imports}

def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 3).to(device)
    optim = Optim(model.parameters())
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 4).to(device)), torch.zeros(8).long().to(device))
        loss.backward()
        optim.step()
    {more}


if __name__ == "__main__":
    main()
"""


def of_trainers(root: Path, imports: str = "", more: str = "print()") -> dict[str, Result]:
    (root / ".git").mkdir()
    helper = "from trainers import Trainer\n\n\ndef make(model, device):\n    return Trainer(model, device)\n"
    tree = {
        "trainers.py": TRAINERS,
        "one.py": BY_TRAINER,
        "two.py": BY_OPTIM.format(imports=imports, more=more),
        "helper.py": helper,
    }
    write_tree(root, {name: source.encode() for name, source in tree.items()})
    return {Path(one.path).name: one for one in migrate_project([root])}


def test_a_class_of_another_program_in_the_same_file_prevents_nothing(tmp_path: Path) -> None:
    results = of_trainers(tmp_path)
    assert [name for name, one in results.items() if one.changed] == ["trainers.py"]
    assert results["two.py"].status == "left"
    before = {script: losses(tmp_path, script) for script in ("one.py", "two.py")}
    (tmp_path / "trainers.py").write_bytes(results["trainers.py"].output)
    assert losses(tmp_path, "two.py") == before["two.py"]
    assert losses(tmp_path, "one.py") == pytest.approx(before["one.py"], abs=0.02)


@pytest.mark.parametrize(
    ("imports", "more"),
    [
        ("from trainers import Trainer\n", "Trainer(model, device).train(torch.randn(8, 4), torch.zeros(8).long())"),
        ("import trainers\n", "trainers.Trainer(model, device).train(torch.randn(8, 4), torch.zeros(8).long())"),
        ("from helper import make\n", "make(model, device).train(torch.randn(8, 4), torch.zeros(8).long())"),
        ("import trainers\n", 'getattr(trainers, "Train" + "er")(model, device)'),
    ],
)
def test_a_program_that_is_refused_keeps_what_it_trains_by(tmp_path: Path, imports: str, more: str) -> None:
    results = of_trainers(tmp_path, imports, more)
    assert not any(one.changed for one in results.values())
    assert results["trainers.py"].findings
