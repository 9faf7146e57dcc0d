"""`super().step()` of a class in another file: is it a step of an optimizer?"""

from __future__ import annotations

import pytest

from amp_migrate.files.gradients import trains
from amp_migrate.files.imports import canonical

HEAD = """\
import torch
from torch.optim import SGD, lr_scheduler
from torch.optim.lr_scheduler import LambdaLR
from elsewhere import Unknown
from phases import Counter


class Own(LambdaLR):
    def step(self, epoch=None):
        super().step(epoch)


class Without(LambdaLR):
    pass


class Trainer:
    def step(self, loss):
        loss.backward()


"""
COUNTER = "class Counter:\n    def step(self):\n        self.done += 1\n"


def _trains(folder, base, call):
    (folder / "phases.py").write_text(COUNTER)
    (folder / "schedule.py").write_text(f"{HEAD}class One({base}):\n    def step(self, epoch=None):\n        {call}\n")
    return trains(canonical(folder / "main.py", "schedule.One.step"))


@pytest.mark.parametrize(
    "base, call",
    [
        ("LambdaLR", "super().step(epoch)"),
        ("LambdaLR", "super(One, self).step(epoch)"),
        ("LambdaLR", "LambdaLR.step(self, epoch)"),
        ("lr_scheduler.LambdaLR", "super().step(epoch)"),
        ("torch.optim.lr_scheduler.LambdaLR", "super().step(epoch)"),
        ("torch.optim.lr_scheduler.LambdaLR", "torch.optim.lr_scheduler.LambdaLR.step(self, epoch)"),
        ("Own", "super().step(epoch)"),
        ("Without", "super().step(epoch)"),
        ("Counter", "super().step()"),
    ],
)
def test_the_step_of_a_scheduler_trains_nothing(tmp_path, base, call):
    assert not _trains(tmp_path, base, call)


@pytest.mark.parametrize(
    "base, call",
    [
        ("SGD", "super().step()"),
        ("torch.optim.SGD", "super().step()"),
        ("Trainer", "super().step(epoch)"),
        ("Unknown", "super().step()"),
        ("LambdaLR, Unknown", "super().step()"),
        ("object", "super().step()"),
        ("LambdaLR", "self.optimizer.step()"),
        ("LambdaLR", "SGD.step(self.inner)"),
    ],
)
def test_any_other_step_may(tmp_path, base, call):
    assert _trains(tmp_path, base, call)
