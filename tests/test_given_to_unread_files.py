"""What a file of the project is given that is not read: it saw float32 before, in whatever a half output is wrapped."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project, migrate_source
from tests.drawn.run import run
from tests.unit_fixture import write_tree

TRAINING = """\
import collections
import functools
import sys
import types

import torch
from torch import nn

import shown


class Own:
    pass


torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).cuda()
optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)
holder, own = shown.Holder(), Own()
kept, history = {}, []
for step in range(2):
    fake = generator(torch.randn(4, 8).cuda())
    loss = fake.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
    GIVEN
"""
SHOWN = """\
import torch


class Holder:
    def tell(self):
        show(self.x)


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if callable(value):
        return tensors(value())
    if hasattr(value, "__dict__"):
        value = vars(value)
    if isinstance(value, dict):
        value = value.values()
    return [found for one in value for found in tensors(one)] if hasattr(value, "__iter__") else []


def show(*values):
    found = tensors(values)
    assert all(one.dtype == torch.float32 for one in found), "half"
    for one in found:
        print("loss", one.abs().sum().item())
"""
GIVEN = [
    "shown.show(fake.detach())",
    "shown.show([fake.detach()])",
    "shown.show({'a': [(fake.detach(), 1)]})",
    "shown.show(types.SimpleNamespace(x=fake.detach()))",
    "holder.x = fake.detach()\n    holder.tell()",
    "setattr(holder, 'x', fake.detach())\n    holder.tell()",
    "setattr(own, 'x', fake.detach())\n    shown.show(own)",
    "shown.show(lambda: fake.detach())",
    "def get():\n        return fake.detach()\n    shown.show(get)",
    "shown.show(lambda one=fake: one.detach())",
    "def get(one=fake):\n        return one.detach()\n    shown.show(get)",
    "setattr(holder, sys.argv[0], fake.detach())\n    shown.show(holder)",
    "shown.show(functools.partial(torch.detach, fake))",
    "shown.show(list(map(torch.detach, [fake])))",
    "shown.show(one.detach() for one in (fake, fake))",
    "shown.show(zip([fake.detach()], [1]))",
    "shown.show(list(enumerate(iter([fake.detach()]))))",
    "shown.show(seen := fake.detach())",
    "shown.show(fake.detach() if step else None)",
    "shown.show(torch.chunk(fake.detach(), 2))",
    "total = 0\n    total += fake.detach()\n    shown.show(total)",
    "given = ()\n    given += (fake.detach(),)\n    shown.show(given)",
    "history += [fake.detach()]\n    shown.show(history)",
    "history.append(fake.detach())\n    shown.show(history)",
    "lists = collections.defaultdict(list)\n    lists['k'].append(fake.detach())\n    shown.show(lists)",
    "lists = [[], []]\n    lists[step].append(fake.detach())\n    shown.show(lists)",
    "kept['a'] = {}\n    kept['a']['b'] = fake.detach()\n    shown.show(**kept)",
    "kept.setdefault('k', []).extend([fake.detach()])\n    shown.show(kept)",
]


@pytest.mark.parametrize("given", GIVEN)
def test_it_is_given_float32(tmp_path, monkeypatch, given):
    source = TRAINING.replace("GIVEN", given)
    write_tree(tmp_path, {".git/HEAD": b"", "train.py": source.encode(), "shown.py": SHOWN.encode()})
    monkeypatch.syspath_prepend(tmp_path)
    found = {result.path.rpartition("/")[2]: result for result in migrate_project([tmp_path], Options(api="torch.amp"))}
    before, after = run(source), run(found["train.py"].output.decode())
    assert found["train.py"].changed and not found["shown.py"].changed
    assert after.losses == pytest.approx(before.losses, rel=1e-2), after


@pytest.mark.parametrize("given", ["shown.show(fake.detach())", "shown.show([fake.detach()])"])
def test_a_package_is_given_float32_as_well(given):
    output = migrate_source(TRAINING.replace("GIVEN", given).encode(), Options(api="torch.amp")).output.decode()
    assert given.replace("fake.detach()", "fake.float().detach()") in output


@pytest.mark.parametrize("given", ["time.time() - start", "1 - share", "-share * 2", "(share + start) / 3"])
def test_what_python_makes_of_what_may_be_numbers_is_not_cast(tmp_path, monkeypatch, given):
    timed = "    start = time.time()\n    share = random.random()\n    loss = fake.pow(2).mean() * (1 - share)\n"
    source = TRAINING.replace("import functools", "import functools\nimport random\nimport time")
    source = source.replace("    loss = fake.pow(2).mean()\n", timed).replace("GIVEN", f"shown.show({given})")
    write_tree(tmp_path, {".git/HEAD": b"", "train.py": source.encode(), "shown.py": SHOWN.encode()})
    monkeypatch.syspath_prepend(tmp_path)
    found = {result.path.rpartition("/")[2]: result for result in migrate_project([tmp_path], Options(api="torch.amp"))}
    output = found["train.py"].output.decode()
    assert f"shown.show({given})" in output
    assert "GradScaler" in output
    assert not run(output).error
