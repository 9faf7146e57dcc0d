"""A criterion that takes gradients is kept out of autocast, also where its name may mean something out of sight as well."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project, migrate_source
from tests.unit_fixture import write_tree

SOURCE = """\
import torch
from torch import autograd, nn


class Penalty(nn.Module):
    def forward(self, net, x):
        x = x.clone().requires_grad_(True)
        scores = net(x)
        (g,) = autograd.grad(scores.sum(), x, create_graph=True)
        return scores.mean() + ((g.norm(2, dim=1) - 1) ** 2).mean()


class Trainer:
    def __init__(self, net, criterion):
        self.net = net
        self.criterion = criterion

    def loss(self, x):
        return {loss}
{beside}

net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()
optimizer = torch.optim.Adam(net.parameters())
trainer = Trainer(net, Penalty())
for _ in range(3):
    loss = trainer.loss(torch.randn(4, 8).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NOTHING = ""
FUNCTION = "\n\ndef make(net, criterion):\n    return Trainer(net, criterion)\n"
METHOD = "\n    @classmethod\n    def of(cls, net, criterion):\n        return cls(net, criterion)\n"
OPTION = "\n\nif __debug__:\n    import other\n\n    Trainer(nn.Linear(8, 1).cuda(), other.Criterion())\n"


@pytest.mark.parametrize("beside", [NOTHING, FUNCTION, METHOD, OPTION], ids=["alone", "function", "method", "import"])
@pytest.mark.parametrize("loss", ["self.criterion(self.net, x)", "self.criterion.forward(self.net, x)"])
def test_a_criterion_that_takes_gradients_stays_out_of_autocast(loss, beside):
    result = migrate_source(SOURCE.format(loss=loss, beside=beside).encode(), Options(api="torch.amp"))
    assert [one.code for one in result.findings] == ["AMP968"]


BESIDE = """\
import torch
from torch import nn
from apex import amp


class Trainer:
    def __init__(self):
        self.G, self.D = nn.Linear(8, 8).cuda(), nn.Linear(8, 1).cuda()
        self.gen_opt = torch.optim.SGD(self.G.parameters(), lr=0.1)
        self.dis_opt = torch.optim.SGD(self.D.parameters(), lr=0.1)
        [self.G, self.D], [self.gen_opt, self.dis_opt] = amp.initialize(
            [self.G, self.D], [self.gen_opt, self.dis_opt], opt_level="O1"
        )

    def dis_loss(self, fake, real):
        real.requires_grad_()
        scores = self.D(real)
        (grad,) = torch.autograd.grad(scores.sum(), real, create_graph=True)
        return (self.D(fake) ** 2).mean() + (scores**2).mean() + grad.pow(2).sum(1).mean()

    def gen_update(self, x):
        self.gen_opt.zero_grad()
        fake = self.G(x)
        loss = (self.D(fake) ** 2).mean()
        with amp.scale_loss(loss, self.gen_opt) as scaled:
            scaled.backward()
        self.gen_opt.step()
        return fake

    def dis_update(self, fake, real):
        self.dis_opt.zero_grad()
        loss = self.dis_loss(fake.detach(), real)
        with amp.scale_loss(loss, self.dis_opt) as scaled:
            scaled.backward()
        self.dis_opt.step()


trainer = Trainer()
for step in range(5):
    fake = trainer.gen_update(torch.randn(4, 8).cuda())
    trainer.dis_update(fake, torch.randn(4, 8).cuda())
"""


def test_a_loss_that_takes_gradients_goes_on_in_float32_beside_another():
    result = migrate_source(BESIDE.encode(), Options(api="torch.amp"))
    assert [(one.code, one.line) for one in result.findings] == [("AMP106", 32)], result.findings
    assert "self.D(fake.float())" in result.output.decode()
    assert result.output.decode().count("autocast") == 1


LOOP = BESIDE[BESIDE.index("for step") :]
TRAINER = BESIDE[: BESIDE.index("\n\ntrainer = ")] + "\n"
SCRIPT = "import torch\nfrom trainer import Trainer\n\ntrainer = Trainer()\n"
HANDED_ON = {
    "as it is": SCRIPT + LOOP,
    "changed": SCRIPT + LOOP.replace("(fake,", "(torch.cat([fake, fake])[:4],"),
    "in a list": SCRIPT
    + "kept = []\n"
    + LOOP.replace("(fake,", "(kept[-1],").replace("    tr", "    kept.append(fake)\n    tr"),
}


@pytest.mark.parametrize("name", HANDED_ON)
def test_what_a_script_hands_on_to_such_a_loss_is_float32(tmp_path, name):
    write_tree(tmp_path, {"trainer.py": TRAINER.encode(), "main.py": HANDED_ON[name].encode()})
    (result,) = (one for one in migrate_project([tmp_path], Options(api="torch.amp")) if one.status == "migrated")
    assert "self.D(fake.float())" in result.output.decode()


def test_such_a_loss_prevents_it_where_a_file_out_of_the_unit_may_hand_it_anything(tmp_path):
    body = LOOP.replace("\n", "\n    ")
    library = f"import torch\n\n\ndef run(trainer):\n    {body}\n"
    main = "from library import run\nfrom trainer import Trainer\n\nrun(Trainer())\n"
    files = {"trainer.py": TRAINER, "library.py": library, "main.py": main}
    write_tree(tmp_path, {name: text.encode() for name, text in files.items()})
    results = migrate_project([tmp_path], Options(api="torch.amp"))
    assert "AMP968" in [found.code for one in results for found in one.findings]
