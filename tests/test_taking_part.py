"""An optimizer of which nothing takes part in the loss is not stepped: GradScaler would raise where it did nothing."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source
from tests.drawn.run import run

SCRIPT = """\
import contextlib
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Both(nn.Module):
    def __init__(self, net, head):
        super().__init__()
        self.net, self.head = net, head

    def forward(self, x):
        return self.head(self.net(x))


def scored(head, features):
    return head(features)


def run(module, x):
    return module(x)


net, head = nn.Linear(4, 8).cuda(), nn.Linear(8, 8).cuda()
other = nn.Linear(8, 8).cuda()
both = Both(net, head)
layers = {"head": head}
net_optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
head_optimizer = torch.optim.Adam(PARAMETERS, lr=0.1)


def train(loader, mode, use_head, epochs):
    head.train()
    for i, (x, y) in enumerate(loader):
        x, y = x.cuda(), y.cuda()
BODY


train([(torch.randn(4, 4), torch.zeros(4).long())], "plain", False, 1)
"""
CLEAR = "net_optimizer.zero_grad()\nhead_optimizer.zero_grad()\n"
STEP = "loss.backward()\nnet_optimizer.step()\nhead_optimizer.step()\n"
GUARDED = """\
        if any(p.grad is not None for group in head_optimizer.param_groups for p in group["params"]):
            scaler.step(head_optimizer)
        scaler.update()
"""
WITH_HEAD = "    loss = F.cross_entropy(head(net(x)), y)\n"
WITHOUT = "    loss = F.cross_entropy(net(x), y)\n"


def migrated(body: str, parameters: str = "head.parameters()"):
    indented = "".join(f"        {line}\n" for line in body.splitlines()).rstrip("\n")
    return migrate_source(SCRIPT.replace("BODY", indented).replace("PARAMETERS", parameters).encode(), Options())


LEFT_OUT = {
    "arms": f"{CLEAR}if mode == 'head':\n{WITH_HEAD}else:\n{WITHOUT}{STEP}",
    "an added loss": f"{CLEAR}out = net(x)\nloss = F.cross_entropy(out, y)\n"
    f"if use_head:\n    more = head(out)\n    loss += F.cross_entropy(more, y)\n{STEP}",
    "no gradients": f"{CLEAR}if i > epochs:\n    z = head(net(x))\n"
    f"else:\n    with torch.no_grad():\n        z = head(x.repeat(1, 2))\n    z = net(x) + z\n"
    f"loss = F.cross_entropy(z, y)\n{STEP}",
    "forward first": f"if mode == 'head':\n{WITH_HEAD}else:\n{WITHOUT}{CLEAR}{STEP}",
    "cleared last": f"if mode == 'head':\n{WITH_HEAD}else:\n{WITHOUT}{STEP}{CLEAR}",
    "a helper": f"{CLEAR}out = net(x)\nif mode == 'head':\n    out = scored(head, out)\n"
    f"loss = F.cross_entropy(out, y)\n{STEP}",
    "an elif": f"{CLEAR}if mode == 'head':\n{WITH_HEAD}elif mode == 'net':\n{WITHOUT}else:\n    raise ValueError(mode)\n{STEP}",
    "two ifs": f"{CLEAR}if mode == 'head':\n    out = head(net(x))\nelse:\n    out = other(net(x))\n"
    f"if mode == 'head':\n    loss = out.mean()\nelse:\n    loss = F.cross_entropy(out, y)\n{STEP}",
    "a leap": f"{CLEAR}out = net(x)\nif mode != 'head':\n    loss = F.cross_entropy(out, y)\n"
    f"else:\n    loss = F.cross_entropy(head(out), y)\n{STEP}",
}


@pytest.mark.parametrize("body", LEFT_OUT.values(), ids=LEFT_OUT)
def test_it_is_stepped_where_there_is_a_gradient(body):
    result = migrated(body)
    assert result.status == "migrated"
    assert "AMP127" in [finding.code for finding in result.findings]
    output = result.output.decode()
    assert GUARDED in output
    assert "        scaler.step(net_optimizer)\n" in output


@pytest.mark.parametrize(
    "parameters",
    [
        "list(head.parameters())",
        "filter(lambda p: p.requires_grad, head.parameters())",
        "[p for p in head.parameters() if p.requires_grad]",
        '[{"params": head.parameters(), "lr": 0.2}]',
        "list(head.parameters()) + list(other.parameters())",
    ],
)
def test_whatever_its_parameters_are_given_as(parameters):
    body = f"{CLEAR}if mode == 'head':\n{WITH_HEAD}else:\n{WITHOUT}{STEP}"
    assert GUARDED in migrated(body, parameters).output.decode()


def test_gradients_of_an_earlier_round_stay():
    result = migrated(f"net_optimizer.zero_grad()\nif mode == 'head':\n{WITH_HEAD}else:\n{WITHOUT}{STEP}")
    assert (result.status, [finding.code for finding in result.findings]) == ("left", ["AMP921"])
    assert "nothing that head_optimizer has takes part in the loss" in result.findings[0].message


TAKES_PART = {
    "both arms": f"{CLEAR}if mode == 'head':\n{WITH_HEAD}else:\n    loss = head(net(x)).mean()\n{STEP}",
    "what holds it": f"{CLEAR}if mode == 'head':\n{WITH_HEAD}else:\n    loss = both(x).mean()\n{STEP}",
    "by its key": f"{CLEAR}if mode == 'head':\n{WITH_HEAD}else:\n    loss = layers['head'](net(x)).mean()\n{STEP}",
    "by any key": f"{CLEAR}if mode == 'head':\n{WITH_HEAD}else:\n    loss = layers[mode](net(x)).mean()\n{STEP}",
    "handed on": f"{CLEAR}if mode == 'head':\n{WITH_HEAD}else:\n    loss = run(head, net(x)).mean()\n{STEP}",
    "out of sight": f"{CLEAR}if mode == 'head':\n{WITH_HEAD}else:\n"
    f"    loss = checkpoint(head, net(x), use_reentrant=False).mean()\n{STEP}",
    "in a lambda": f"{CLEAR}if mode == 'head':\n{WITH_HEAD}else:\n    loss = (lambda z: head(z))(net(x)).mean()\n{STEP}",
    "mapped": f"{CLEAR}if mode == 'head':\n{WITH_HEAD}else:\n"
    f"    loss = torch.cat(list(map(lambda z: head(z), [net(x)]))).mean()\n{STEP}",
    "its weight": f"{CLEAR}if mode == 'head':\n{WITH_HEAD}else:\n    loss = (net(x) @ head.weight).mean()\n{STEP}",
    "its weight in a call": f"{CLEAR}if mode == 'head':\n{WITH_HEAD}else:\n    loss = F.linear(net(x), head.weight).mean()\n{STEP}",
    "all arms that bind": f"{CLEAR}if mode == 'head':\n    out = head(net(x))\nelif mode == 'two':\n"
    f"    out = head(net(x)) * 2\nloss = F.cross_entropy(out, y)\n{STEP}",
    "a loop": f"{CLEAR}loss = 0\nfor part in x.split(2):\n    loss = loss + head(net(part)).mean()\n{STEP}",
    "a while": f"{CLEAR}loss, k = net(x).mean(), 0\nwhile loss is None or k == 0:\n"
    f"    loss, k = loss + head(net(x)).mean(), 1\n{STEP}",
    "its own condition": f"{CLEAR}if use_head:\n{WITH_HEAD}else:\n{WITHOUT}loss.backward()\n"
    "net_optimizer.step()\nif mode == 'head':\n    head_optimizer.step()\n",
    "the same condition": f"{CLEAR}if use_head:\n{WITH_HEAD}else:\n{WITHOUT}loss.backward()\n"
    "net_optimizer.step()\nif use_head:\n    head_optimizer.step()\n",
    "two losses": "net_optimizer.zero_grad()\nloss = head(net(x)).mean()\nloss.backward()\nnet_optimizer.step()\n"
    "head_optimizer.zero_grad()\nloss = -head(net(x).detach()).mean()\nloss.backward()\nhead_optimizer.step()\n",
    "a round before": f"loss = head(net(x)).mean()\n{CLEAR}{STEP}",
}


@pytest.mark.parametrize("body", TAKES_PART.values(), ids=TAKES_PART)
def test_it_is_stepped_as_it_was_where_it_may_take_part(body):
    result = migrated(body)
    assert not {"AMP127", "AMP921"} & {finding.code for finding in result.findings}
    assert ".step(head_optimizer)" in result.output.decode()


OUTSIDE = """\
import torch
from torch import nn
from torch.nn import functional as F


class Model:
    def __init__(self):
        self.net, self.head = nn.Linear(4, 8).cuda(), nn.Linear(8, 8).cuda()
        self.net_optimizer = torch.optim.Adam(self.net.parameters(), lr=0.1)
        self.head_optimizer = torch.optim.Adam(self.head.parameters(), lr=0.1)

    def forward(self, x):
        self.out = self.head(self.net(x))

    def optimize(self, y, more):
        self.net_optimizer.zero_grad()
        self.head_optimizer.zero_grad()
        loss = F.cross_entropy(self.out, y)
        if more:
            loss = loss + self.head(torch.randn(4, 8).cuda()).mean()
        loss.backward()
        self.net_optimizer.step()
        self.head_optimizer.step()


CALLED
"""
LOOP = """\
model = Model()
for x, y in [(torch.randn(4, 4), torch.zeros(4).long())]:
    model.forward(x.cuda())
    model.optimize(y.cuda(), False)
"""
BETWEEN = """\
def step(model, x, y):
    model.optimize(y, False)


model = Model()
for x, y in [(torch.randn(4, 4), torch.zeros(4).long())]:
    model.forward(x.cuda())
    step(model, x.cuda(), y.cuda())
"""


@pytest.mark.parametrize("called", [LOOP, BETWEEN, "print(Model())"])
def test_it_may_take_part_before_the_training_step(called):
    result = migrate_source(OUTSIDE.replace("CALLED", called).encode(), Options())
    assert not {"AMP127", "AMP921"} & {finding.code for finding in result.findings}


# What the callers make, wrap and load takes part in no loss.
PREPARED = """\
def prepared(net):
    net.load_state_dict(torch.load("net.pth"))
    return net


model = Model()
model.head = prepared(model.head)
model.head = nn.DataParallel(model.head)
for x, y in [(torch.randn(4, 4), torch.zeros(4).long())]:
    model.out = model.net(x.cuda())
    model.optimize(y.cuda(), False)
    with torch.no_grad():
        print(model.head(model.out).mean())
"""


def test_what_prepares_a_network_takes_no_part():
    result = migrate_source(OUTSIDE.replace("CALLED", PREPARED).encode(), Options())
    assert "AMP127" in {finding.code for finding in result.findings}


def test_what_runs_before_without_gradients_takes_no_part():
    called = LOOP.replace(
        "    model.forward(x.cuda())\n", "    with torch.no_grad():\n        model.forward(x.cuda())\n"
    )
    result = migrate_source(OUTSIDE.replace("CALLED", called).encode(), Options())
    assert "AMP921" in {finding.code for finding in result.findings}


def test_what_else_an_optimizer_may_have_is_not_known():
    body = f"{CLEAR}if mode == 'head':\n{WITH_HEAD}else:\n{WITHOUT}{STEP}"
    assert "p.grad" not in migrated(body, "[*head.parameters(), torch.zeros(1, requires_grad=True)]").output.decode()


ROLLOUT = """\
import sys

import torch
from torch import nn


class Agent:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).cuda()
        self.critic = nn.Linear(16, 1).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.critic_optimizer = torch.optim.SGD(self.critic.parameters(), lr=0.1)

    def rollout(self, judged):
        x = torch.randn(8, 16).cuda()
        loss = self.model(x).pow(2).mean()
        {judge}
        return loss / 8

    def judge(self, x):
        return (self.critic(x) - 1).pow(2).mean()

    def train(self):
        for _ in range(3):
            self.optimizer.zero_grad()
            self.critic_optimizer.zero_grad()
            loss = self.rollout("teacher" not in sys.argv)
            loss.backward()
            self.optimizer.step()
            self.critic_optimizer.step()
            print("loss", loss.item())


torch.manual_seed(0)
Agent().train()
"""


@pytest.mark.parametrize(
    ("judge", "in_any_case"),
    [
        ("loss = loss + self.judge(x)", True),
        ("for _ in range(2):\n            loss = loss + self.judge(x)", True),
        ("loss = loss + (self.judge(x) if judged else self.critic(x).mean())", True),
        (
            "if judged:\n            loss = loss + self.judge(x)\n        else:\n            loss += self.judge(x) / 2",
            True,
        ),
        ("if judged:\n            loss = loss + self.judge(x)", False),
        ("if judged:\n            for _ in range(2):\n                loss = loss + self.critic(x).mean()", False),
    ],
)
def test_what_a_function_may_leave_out_need_not_take_part(judge, in_any_case):
    source = ROLLOUT.format(judge=judge)
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert ("if any(p.grad is not None" in output) is not in_any_case
    for arguments in ((), ("teacher",)):
        before, after = run(source, arguments), run(output, arguments)
        assert not before.error and not after.error, after
        assert after.losses[0] == pytest.approx(before.losses[0], rel=0.01)
