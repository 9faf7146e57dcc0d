"""A class of the tree that only adds to a wrapper of torch is decided as the wrapper is."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project
from tests.test_facts import asked, facts_of
from tests.unit_fixture import write_tree

SCRIPT = """\
import torch
import torch.nn as nn
{imports}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 1)
        self.bce = nn.BCELoss()

    def forward(self, x, y):
{forward}

{wrapper}
model = {made}.cuda()
optimizer = torch.optim.Adam(model.module.head.parameters())
for x, y in [(torch.randn(4, 8), torch.ones(4, 1))]:
    optimizer.zero_grad()
    loss = model(x.cuda(), y.cuda())
    loss.backward()
    optimizer.step()
"""
PENALTY = """\
        x.requires_grad = True
        (grad,) = torch.autograd.grad(self.head(x).sum(), x, create_graph=True)
        return grad.pow(2).sum()"""
BCE = "        return self.bce(torch.sigmoid(self.head(x)), y)"
EMPTY = "\nclass Parallel(nn.DataParallel):\n    pass\n\n"
ADDING = (
    "\nclass Parallel(nn.DataParallel):\n    def replicate(self, *given):\n        return super().replicate(*given)\n\n"
)
DERIVED = EMPTY + "\nclass Further(Parallel):\n    pass\n\n"


def decided(
    root, forward: str, imports: str = "", wrapper: str = "", made: str = "nn.DataParallel(Model())", **files: str
):
    """The status of the script and the codes that are said of it."""
    root.mkdir()
    texts = {"train": SCRIPT.format(forward=forward, imports=imports, wrapper=wrapper, made=made), **files}
    write_tree(root, {f"{name}.py": text.encode() for name, text in texts.items()})
    found = next(one for one in migrate_project([root], Options(api="torch.amp")) if one.path.endswith("train.py"))
    return found.status, sorted(one.code for one in found.findings)


@pytest.mark.parametrize("forward", [PENALTY, BCE], ids=["penalty", "bce"])
@pytest.mark.parametrize(
    "spelling",
    [
        {"wrapper": EMPTY, "made": "Parallel(Model())"},
        {"wrapper": ADDING, "made": "Parallel(Model(), device_ids=[0])"},
        {"wrapper": DERIVED, "made": "Further(Model())"},
        {
            "imports": "from parallel import Parallel",
            "made": "Parallel(Model())",
            "parallel": "from torch import nn\n" + ADDING,
        },
    ],
    ids=["empty", "a method more", "twice", "in another file"],
)
def test_it_is_looked_through(tmp_path, forward, spelling):
    assert decided(tmp_path / "own", forward, **spelling) == decided(tmp_path / "torch", forward)


def test_a_penalty_inside_stays_out_of_autocast(tmp_path):
    assert decided(tmp_path / "own", PENALTY, wrapper=EMPTY, made="Parallel(Model())") == ("left", ["AMP968"])


@pytest.mark.parametrize(
    ("base", "body", "is_seen"),
    [
        ("torch.nn.DataParallel", "pass", True),
        ("torch.nn.DataParallel", "def forward(self, x): return x", False),
        ("torch.nn.DataParallel", "def __init__(self, rate, net): super().__init__(net)", False),
        ("apex.fp16_utils.FP16_Optimizer", "def step(self): pass", False),
        ("apex.parallel.LARC.LARC", "def step(self): pass", False),
    ],
)
def test_only_what_is_made_and_called_as_torchs_is(base, body, is_seen):
    facts = facts_of(f"import torch, apex\n\nclass Own({base}):\n    {body}\n\ninner = make()\nask(inner, Own(inner))")
    inner, own = map(facts.objects.objects, asked(facts))
    assert bool(inner) and (inner == own) is is_seen
