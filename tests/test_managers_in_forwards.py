"""A context manager that a forward enters leaves no region; what another file steps is read before it refuses."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

TRAIN = """\
import torch
from torch import nn
from nets import Captioner

net = Captioner().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(numbers):
    outputs = net.search(x.cuda())
    optimizer.zero_grad()
    loss = outputs.mean()
    loss.backward()
    optimizer.step()
"""
NETS = """\
from contextlib import contextmanager
import torch
from torch import nn
from beams import Beam


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def step(self, x):
        return self.fc(x)

    @contextmanager
    def stateful(self):
        self.on = True
        yield
        self.on = False

    def rows(self, x):
        for row in x:
            yield self.fc(row)

    def search(self, x):
        SEARCH
"""
BEAMS = """\
class Beam:
    def __init__(self, model):
        self.model = model
        self.optimizer = None

    def apply(self, x):
        with self.model.stateful():
            x = self.model.step(x)
        APPLY
        return x
"""
DIRECT = "with self.stateful():\n            return self.step(x)"
BEAM = "return Beam(self).apply(x)"


def _outcome(tmp_path, search, apply="x = x * 2"):
    files = {"train.py": TRAIN, "nets.py": NETS.replace("SEARCH", search), "beams.py": BEAMS.replace("APPLY", apply)}
    write_tree(tmp_path, {name: text.encode() for name, text in files.items()})
    results = migrate_project([tmp_path], Options(api="torch.amp"))
    codes = [one.code for result in results for one in result.findings if one.code > "AMP900"]
    return codes, b"".join(result.output for result in results if result.changed)


@pytest.mark.parametrize("search", [DIRECT, BEAM])
def test_a_manager_may_be_entered(tmp_path, search):
    codes, output = _outcome(tmp_path, search)
    assert codes == []
    assert b"outputs = net.search(x.cuda())" in output.partition(b"with torch.amp.autocast")[2]


def test_what_seems_to_step_may_not(tmp_path):
    codes, output = _outcome(tmp_path, BEAM, "self.optimizer.step(x)")
    assert codes
    assert not output


@pytest.mark.parametrize(
    ("search", "apply"),
    [(BEAM, "x.mean().backward()"), (f"out = self.fc(x)\n        out.mean().backward()\n        {DIRECT}", "pass")],
)
def test_a_backward_stays_out(tmp_path, search, apply):
    _, output = _outcome(tmp_path, search, apply)
    assert b"\n    outputs = net.search(x.cuda(), scaler)\n" in output
    assert b".mean()).backward()" in output
