"""Hooks on tensors: which of them mind the scale of the loss, and which could change the dtype of a gradient."""

from __future__ import annotations

import textwrap

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
import torch.nn as nn

model, mask = nn.Linear(4, 4).cuda(), torch.ones(4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = []

{before}

for _ in range(3):
    out = model(torch.randn(8, 4).cuda())
    out.register_hook({hook})
    loss = out.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

LINEAR = {
    "reversed": ("lambda grad: -grad", ""),
    "reversed in part": ("lambda grad: -0.5 * grad.clone()", ""),
    "divided": ("lambda g: g.div(2) + torch.mul(2, g) / 3", ""),
    "turned": ("lambda g: g.flip(0).mul(torch.ones(4).cuda())", ""),
    "chosen": ("lambda g: g if model.training else -g", ""),
    "set to zero in part": ("hook", "def hook(g):\n    g = g.clone()\n    g[:, 0] = 0\n    g[:, 1] *= 2\n    return g"),
    "by a factory": ("scaled(0.1)", "def scaled(by):\n    return lambda g: g * by"),
    "by a factory of functions": (
        "scaled(0.1)",
        "def scaled(by):\n    def hook(g):\n        print('backward')\n        return g * by\n    return hook",
    ),
    "in an arm": ("hook", "def hook(g):\n    if model.training:\n        return -g\n    return 2 * g"),
}

NOT_LINEAR = {
    "printed": ("print", ""),
    "stored": ("lambda grad: seen.append(grad)", ""),
    "stored by name": ("hook", "def hook(grad):\n    global seen\n    seen = grad"),
    "clamped": ("lambda grad: grad.clamp(-1, 1)", ""),
    "mended": ("lambda grad: torch.nan_to_num(grad)", ""),
    "normalised": ("lambda grad: grad / grad.norm()", ""),
    "noise": ("lambda grad: grad + 0.1", ""),
    "noise of a tensor": ("lambda grad: grad + torch.randn_like(grad)", ""),
    "squared": ("lambda grad: grad * grad", ""),
    "inverted": ("lambda grad: 1 / grad", ""),
    "compared": ("lambda grad: grad if grad.max() > 1 else -grad", ""),
    "by the gradient of another": ("lambda g: g * model.weight.grad", ""),
    "into a tensor of others": ("lambda grad: mask.mul_(grad)", ""),
    "a constant": ("lambda grad: mask", ""),
    "set to a number": ("hook", "def hook(g):\n    g[0] = 1\n    return g"),
    "of a caller": ("hook", "from hooks import hook"),
    "after a decorator": ("hook", "from hooks import logged\n@logged\ndef hook(g):\n    return -g"),
    "in one of the arms": (
        "hook",
        "def hook(g):\n    if model.training:\n        g = g.norm()\n    return g",
    ),
}

DTYPES = {
    "a number": ("lambda grad: grad * 0.5", "", "lambda grad: grad * 0.5"),
    "a tensor": ("lambda grad: grad * mask", "", "lambda grad: (grad * mask).to(grad.dtype)"),
    "a call of the tensor": ("lambda g: g.mul(mask)", "", "lambda g: g.mul(mask).to(g.dtype)"),
    "in place": ("hook", "def hook(g):\n    g = g.clone()\n    g *= mask\n    return g", "g *= mask\n    return g"),
    "a name bound again": (
        "hook",
        "def hook(g):\n    g = g * mask\n    return -g",
        "    g = (g * mask).to(g.dtype)\n    return -g",
    ),
}


def migrated(hook: str, before: str) -> tuple[str, list[str]]:
    result = migrate_source(SCRIPT.format(hook=hook, before=textwrap.dedent(before)).encode(), Options(api="torch.amp"))
    return result.output.decode(), [finding.code for finding in result.findings]


@pytest.mark.parametrize("name", LINEAR)
def test_what_is_linear_is_migrated(name):
    output, findings = migrated(*LINEAR[name])
    assert "scaler.scale(loss)" in output and findings == []


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_what_looks_at_the_gradient_is_left(name):
    output, findings = migrated(*NOT_LINEAR[name])
    assert "scaler" not in output and findings == ["AMP958"]


@pytest.mark.parametrize("name", DTYPES)
def test_the_gradient_keeps_its_dtype(name):
    hook, before, expected = DTYPES[name]
    assert expected in migrated(hook, before)[0]


KEEPING = """\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.seen = None

    def keep(self, grad):
        {keep}

    def get_seen(self):
        return self.seen

    def forward(self, x):
        out = self.fc(x)
        out.register_hook({hook})
        return out


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(8, 4).cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {after}
"""
KEPT = ["pass", "print(model.fc)", "model.seen = None"]
READ = [
    "print(model.seen)",
    "print(model.get_seen())",
    "asked = model.get_seen",
    "print(getattr(model, 'seen'))",
    "print(getattr(model, 'get_seen')())",
]


def status_of(after: str, keep: str = "self.seen = grad", hook: str = "self.keep") -> str:
    source = KEEPING.format(after=after, keep=keep, hook=hook)
    return migrate_source(source.encode(), Options(api="torch.amp")).status


@pytest.mark.parametrize("after", KEPT)
def test_what_is_kept_and_never_read_may_be_scaled(after):
    assert status_of(after) == "migrated"


@pytest.mark.parametrize("after", READ)
def test_what_is_kept_and_may_be_read_is_left(after):
    assert status_of(after) == "left"


@pytest.mark.parametrize(
    "keep",
    ["self.seen = grad.norm()", "print(grad)\n        self.seen = grad", "self.seen.append(grad)"],
)
def test_what_does_more_than_to_keep_is_left(keep):
    assert status_of("pass", keep) == "left"


RETAINED = """\
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--keep", action="store_true")
args = parser.parse_args()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        x = self.fc(x)
        if args.keep:
            x.retain_grad()
        return x


def show(x):
    print(x.grad)


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    out = model(torch.randn(8, 4).cuda())
    loss = out.pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=args.keep)
    show(out)
    optimizer.step()
"""


@pytest.mark.parametrize("read", ["x.shape", "x.grad"])
def test_a_gradient_that_is_retained_may_be_read(read):
    result = migrate_source(RETAINED.replace("x.grad", read).encode(), Options())
    expected = ("migrated", []) if read == "x.shape" else ("left", ["AMP958"])
    assert (result.status, [finding.code for finding in result.findings]) == expected
