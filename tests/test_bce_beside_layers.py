"""A binary cross entropy in one statement with a layer: the layer stays under autocast, which the loss must leave.

Outside of autocast a layer of float32 weights raises on the half features that it is given.
"""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project, migrate_source
from tests.unit_fixture import write_tree

SCRIPT = """\
import torch
from torch import nn
{imports}

{defined}
class Loss(nn.Module):
    def __init__(self, head):
        super().__init__()
        self.head = {head}
        self.bce = nn.BCELoss()

    def forward(self, h, y):
        return self.bce(torch.sigmoid({called}(h)), y)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(10, 10)
        self.loss = Loss(nn.Linear(10, 1))

    def forward(self, x, y):
        return self.loss(self.enc(x), y)


class Wrapper(nn.Module):
    def __init__(self, {field}):
        super().__init__()
        self.{field} = {field}

    def forward(self, *args):
        return self.{field}(*args)


model = {model}.cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for x, y in [(torch.randn(4, 10), torch.ones(4, 1))]:
    loss = model(x.cuda(), y.cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HEAD = """\
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(10, 1)

    def forward(self, h):
        return self.fc(h)


"""
HEADS = {
    "a layer": {"head": "nn.Linear(10, 1)"},
    "one that is given": {"head": "head"},
    "a container": {"head": "nn.Sequential(nn.Linear(10, 4), nn.Linear(4, 1))"},
    "a module": {"head": "Head()", "defined": HEAD},
    "out of sight": {"head": "make_head()", "imports": "from heads import make_head\n"},
    "by its forward": {"head": "nn.Linear(10, 1)", "called": "self.head.forward"},
}
MODELS = {
    "itself": {"model": "Model()"},
    "in a wrapper": {"model": "Wrapper(Model())"},
    "in a wrapper like torch's": {"model": "Wrapper(Model())", "field": "module"},
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("model", MODELS)
def test_a_layer_stays_under_autocast(tmp_path, head, model):
    parts = {"imports": "", "defined": "", "called": "self.head", "field": "net", **HEADS[head], **MODELS[model]}
    write_tree(tmp_path, {"train.py": SCRIPT.format(**parts).encode()})
    (result,) = migrate_project([tmp_path], Options(api="torch.amp"))
    output = result.output.decode()
    assert (
        result.status == "left"
        or (
            f"        output = torch.sigmoid({parts['called']}(h).float())\n"
            '        with torch.amp.autocast("cuda", enabled=False):\n'
            "            return self.bce(output, y)\n"
        )
        in output
    ), output
    assert result.status == "migrated" or head == "out of sight"


TWO = """\
import torch
from torch import nn

net, disc = nn.Linear(8, 8).cuda(), nn.Linear(8, 1).cuda()
bce = nn.BCELoss()
optimizer = torch.optim.SGD([*net.parameters(), *disc.parameters()], lr=0.1)
for x in batches:
    x = x.cuda()
    out = net(x)
    valid = torch.ones(4, 1).cuda()
    loss = {made}(torch.sigmoid(disc(out)), valid) + {made}(torch.sigmoid(disc(x)), 1 - valid)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("made", ["bce", "nn.BCELoss()", "torch.nn.functional.binary_cross_entropy"])
def test_two_of_them_in_one_statement_take_what_is_float32_as_it_is(made):
    output = migrate_source(TWO.format(made=made).encode(), Options(api="torch.amp")).output.decode()
    assert "output = torch.sigmoid(disc(out).float())" in output
    assert "prediction = torch.sigmoid(disc(x).float())" in output
    assert f"    loss = {made}(output, valid) + {made}(prediction, 1 - valid)\n" in output


FORWARD = """\
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(8, 1)

    def forward(self, x):
        return torch.sigmoid(self.score(x)).view(-1)


critic = Critic().cuda()
bce = nn.BCELoss()
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
for x in batches:
    x = x.cuda()
    judged = critic(x)
    loss = bce(judged, torch.ones(4).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_probabilities_that_a_forward_makes_in_float32_are_not_cast_again():
    output = migrate_source(FORWARD.encode(), Options(api="torch.amp")).output.decode()
    assert "return torch.sigmoid(self.score(x).float()).view(-1)" in output
    assert "    loss = bce(judged, torch.ones(4).cuda())\n" in output


ENDS = """\
import torch
from torch import nn

first, second = nn.Sequential(nn.Linear(8, 5), nn.Softmax(dim=1)).cuda(), nn.Linear(8, 5).cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(16, 8).cuda()
    optimizer.zero_grad()
    one = first(x).view(16, 1, 5)
    LAST
    loss = criterion(one.view(-1), torch.ones(80).cuda()) + other.mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("last", "inside"),
    [
        ("other = second(x).view(-1)", True),
        ("other = second(x).movedim(0, 1)", True),
        ("other = torch.ones(80).cuda().view(-1)", False),
    ],
)
def test_a_forward_that_is_reshaped_stays_in_the_region(last, inside):
    output = migrate_source(ENDS.replace("LAST", last).encode(), Options(api="torch.amp")).output.decode()
    assert "GradScaler" in output
    assert (f"        {last}" in output) == inside
