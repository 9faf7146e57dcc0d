"""What a model reads of a class of settings in another file."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from amp_migrate.cli.migrate import migrate

TRAIN = """\
import torch
from torch import nn
{imports}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x, name):
        return {made}

net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in loader:
    loss = net(batch.cuda(), "a").pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def codes(tmp_path, monkeypatch, imports: str, made: str) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.py").write_text("class Params:\n    speakers = []\n    names = {}\n")
    (tmp_path / "train.py").write_text(TRAIN.format(imports=imports, made=made))
    return CliRunner().invoke(migrate, ["."]).stderr


@pytest.mark.parametrize("imports", ["from settings import Params as hp", "import settings\nhp = settings.Params"])
@pytest.mark.parametrize("read", ["hp.speakers.index(name)", "hp.speakers.count(name)", "hp.names.get(name)"])
def test_a_method_of_a_list_in_a_class_that_was_read(tmp_path, monkeypatch, imports, read):
    told = codes(tmp_path, monkeypatch, imports, f"self.layer(x) + {read}")
    assert "AMP970" not in told
    assert "1 file would be migrated" in told


@pytest.mark.parametrize("made", ["hp.net.score(self.layer(x))", "hp.nets.first.encode(self.layer(x))"])
def test_what_may_run_a_model_that_is_set_elsewhere_was_not_read(tmp_path, monkeypatch, made):
    assert "AMP970" in codes(tmp_path, monkeypatch, "from settings import Params as hp", made)
