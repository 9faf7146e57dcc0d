"""Half inputs of forwards that stay in float32: they raise there, however far the cast is."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from amp_migrate import Options, migrate_project, migrate_source
from tests.unit_fixture import write_tree

SCRIPT = """\
import torch
from apex import amp

{before}
model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
loader = [torch.randn(8, 4) for _ in range(3)]
for x in loader:
    optimizer.zero_grad()
    loss = model(x.cuda()).float().pow(2).mean()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()


def evaluate(model, loader):
    total = 0
    for x in {loop}:
        total += model({given}).float().mean().item()
    return total


print(evaluate(model, loader))
"""
DATA = """
class Data:
    def __init__(self, data):
        self.data = data

    {method}
"""
FAR = {
    "a list": ("", "[x.half() for x in loader]", "x.cuda()"),
    "text": ("", "loader", 'x.cuda().type("torch.cuda.HalfTensor")'),
    "a generator": ("def halves(data):\n    for x in data:\n        yield x.half()", "halves(loader)", "x.cuda()"),
    "a dataset": (
        DATA.format(method="def __getitem__(self, index):\n        return self.data[index].half()"),
        "torch.utils.data.DataLoader(Data(loader))",
        "x.cuda()",
    ),
    "an iterator": (
        DATA.format(method="def __iter__(self):\n        for x in self.data:\n            yield x.half()"),
        "Data(loader)",
        "x.cuda()",
    ),
    "what collates": (
        "def collate(batch):\n    return torch.stack(batch).half()",
        "torch.utils.data.DataLoader(loader, collate_fn=collate)",
        "x.cuda()",
    ),
}


def refusals(tmp_path, before: str, loop: str, given: str) -> list[str]:
    write_tree(tmp_path, {"train.py": SCRIPT.format(before=before, loop=loop, given=given).encode()})
    (result,) = migrate_project([tmp_path], Options())
    return [finding.code for finding in result.findings if result.status == "left"]


@pytest.mark.parametrize("how", FAR)
def test_a_forward_in_float32_gets_no_half(tmp_path, how):
    """Casts go wherever they are made; a type that a string names stays, and so does the script."""
    before, loop, given = FAR[how]
    write_tree(tmp_path, {"train.py": SCRIPT.format(before=before, loop=loop, given=given).encode()})
    (result,) = migrate_project([tmp_path], Options())
    if how == "text":
        assert (result.status, [one.code for one in result.findings]) == ("left", ["AMP920"])
    else:
        assert result.status == "migrated" and b"half" not in result.output


@pytest.mark.parametrize("how", FAR)
def test_in_float32_all_of_them_may_stay(tmp_path, how):
    before, loop, given = (part.replace("half()", "float()").replace("Half", "Float") for part in FAR[how])
    assert refusals(tmp_path, before, loop, given) == []


def test_what_a_file_does_not_use_feeds_nothing(tmp_path):
    """The cast beside a copy of FP16_Optimizer stays, and its calls are gone."""
    assert refusals(tmp_path, "def to_half(x):\n    return x.half()", "loader", "x.cuda()") == []


FLOW = """
class Flow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(4, 4, 1)

    def forward(self, x, reverse=False):
        w = self.conv.weight
        if reverse:
            w = w.squeeze().float().inverse()[..., None]
            {test}
                w = w.half()
            return torch.nn.functional.conv1d(x, w)
        return self.conv(x)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.flow = Flow()
        self.head = torch.nn.Conv1d(4, 2, 1)

    def forward(self, x):
        return self.head(self.flow(x[..., None]))

    def infer(self, x):
        return self.head(self.flow(x[..., None], reverse=True))
"""


@pytest.mark.parametrize(
    ("test", "is_free"),
    [
        ('if x.type() == "torch.cuda.HalfTensor":', True),
        ("if x.dtype == torch.half:", True),
        ("if torch.half == x.dtype:", True),
        ("if (x.type()\n                    == torch.cuda.HalfTensor):", True),
        ("if x.dtype is torch.float16 and w.dim():", True),
        ("if w.dim() < 2:\n                pass\n            elif x.dtype == torch.half:", True),
        ("if not x.dtype == torch.half:", False),
        ("if x.dtype == torch.half or w.dim():", False),
        ("if x.dtype == torch.half:\n                pass\n            else:", False),
        ("if x.dtype != torch.half:", False),
        ("if x.dtype == torch.float:", False),
    ],
)
def test_half_beside_what_is_half_already_is_no_cast(test, is_free):
    script = SCRIPT.format(before=FLOW.format(test=test), loop="loader", given="x.cuda()")
    script = (
        script.replace("torch.nn.Linear(4, 2)", "Net()").replace("+= model(", "+= model.infer(").replace("O2", "O1")
    )
    result = migrate_source(script.encode(), Options())
    assert [one.code for one in result.findings if result.status == "left"] == ([] if is_free else ["AMP920"])


TRAINER = """\
import torch
from apex import amp


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(4, 2).cuda()
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.model, self.optimizer = amp.initialize(self.model, optimizer, opt_level="O1")

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).float().pow(2).mean()
        with amp.scale_loss(loss, self.optimizer) as scaled:
            scaled.backward()
        self.optimizer.step()
"""
EVALUATOR = """\
import torch


class Evaluator:
    def __init__(self, trainer):
        self.model = trainer.model

    def run(self, x):
        with torch.no_grad():
            return self.model(x.half()).max(1)[1]
"""
MAIN = """\
import torch
from evaluator import Evaluator
from trainer import Trainer

trainer = Trainer()
evaluator = Evaluator(trainer)
for _ in range(3):
    trainer.step(torch.randn(8, 4).cuda())
    print(evaluator.run(torch.randn(8, 4).cuda()))
"""


def test_an_evaluator_that_the_trainer_does_not_know_is_given_no_half(tmp_path):
    files = {"trainer.py": TRAINER, "evaluator.py": EVALUATOR, "main.py": MAIN}
    write_tree(tmp_path, {path: text.encode() for path, text in files.items()})
    outputs = {PurePath(one.path).name: one.output.decode() for one in migrate_project([tmp_path], Options())}
    assert "amp.initialize" not in outputs["trainer.py"]
    assert ".half()" not in outputs["evaluator.py"]


@pytest.mark.parametrize("helper", ["cast = lambda x: x.half()", "def cast(x):\n    return x.half()"])
def test_a_helper_that_casts_what_is_float32_casts_nothing(helper):
    source = SCRIPT.format(before=helper, loop="loader", given="cast(x.cuda())")
    result = migrate_source(source.encode(), Options())
    assert result.status == "migrated"
    assert helper.replace(".half()", "").encode() in result.output
