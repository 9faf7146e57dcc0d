"""An optimizer whose class comes by a star import of a package is told by its name, as any other of a package."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

TRAINING = """\
import torch
from torch import nn
IMPORTS

net = nn.Linear(8, 10).cuda()
optimizer = NAME(net.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(numbers):
    loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
OWN = """\
import torch


class AdamW:
    def __init__(self, parameters, lr):
        self.inner = torch.optim.SGD(parameters, lr=lr)

    def zero_grad(self):
        self.inner.zero_grad()

    def step(self):
        torch.nn.utils.clip_grad_norm_(self.inner.param_groups[0]["params"], 1.0)
        self.inner.step()
"""


def _findings(tmp_path, name, imports):
    training = TRAINING.replace("IMPORTS", imports).replace("NAME", name)
    write_tree(tmp_path, {"train.py": training.encode(), "own.py": OWN.encode(), "other.py": b"import torch\n"})
    results = migrate_project([tmp_path], Options(api="torch.amp"))
    changed = [result.path.rpartition("/")[2] for result in results if result.changed]
    return [one.code for result in results for one in result.findings if one.code > "AMP900"], changed


@pytest.mark.parametrize(
    "imports",
    [
        "from transformers import *",
        "from transformers import *\nfrom other import *",
        "from other import *\nfrom transformers import *\nfrom transformers.modeling_utils import *",
    ],
)
def test_a_class_of_a_package_is_told_by_its_name(tmp_path, imports):
    assert _findings(tmp_path, "AdamW", imports) == ([], ["train.py"])


@pytest.mark.parametrize("name", ["Stepper", "adamw", "get_scheduler"])
def test_another_name_says_nothing(tmp_path, name):
    assert _findings(tmp_path, name, "from transformers import *") == (["AMP952"], [])


@pytest.mark.parametrize("imports", ["from own import *", "from transformers import *\nfrom own import *"])
def test_a_class_of_a_file_is_what_the_file_says(tmp_path, imports):
    codes, changed = _findings(tmp_path, "AdamW", imports)
    assert codes or "own.py" in changed
