"""A hook that is registered on a forward runs with it under autocast, and is read like it."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import functools

import torch
from torch import nn


def hide(value):
    return value.masked_fill(value > 0, -1e9)


def after(module, given, out):
    return hide(out)


def before(module, given):
    return (hide(given[0]),)


def made(by):
    return lambda module, given, out: hide(out)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 8), nn.Linear(8, 8)
        {inside}

    def after(self, module, given, out):
        return hide(out)

    def forward(self, x):
        return self.outer(self.inner(x)).softmax(1)


net = Net().cuda()
{outside}
optimizer = torch.optim.Adam(net.parameters())
for x in torch.utils.data.DataLoader(torch.randn(8, 8), 4):
    loss = nn.functional.mse_loss(net(x.cuda()), x.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HOOKS = [
    "register_forward_hook(after)",
    "register_forward_hook(hook=after)",
    "register_forward_pre_hook(before)",
    "register_forward_hook(lambda module, given, out: hide(out))",
    "register_forward_hook(made(2))",
    "register_forward_hook(globals()['after'])",
]


@pytest.mark.parametrize("hook", [*HOOKS, "register_forward_hook(self.after)"])
def test_one_that_the_model_registers(hook):
    result = migrate_source(SCRIPT.format(inside=f"self.inner.{hook}", outside="").encode(), Options())
    assert "value.float().masked_fill" in result.output.decode(), result.findings


@pytest.mark.parametrize("hook", HOOKS)
def test_one_that_the_script_registers(hook):
    result = migrate_source(SCRIPT.format(inside="pass", outside=f"net.outer.{hook}").encode(), Options())
    assert "value.float().masked_fill" in result.output.decode(), result.findings


def test_one_that_is_not_known_refuses():
    hook = "self.inner.register_forward_hook(TABLE[kind])"
    result = migrate_source(SCRIPT.format(inside=hook, outside="").encode(), Options())
    assert [finding.code for finding in result.findings] == ["AMP951"]


KEPT = """\
import torch
from torch import nn

kept, features = [], {}


def named(name):
    def hook(module, given, out):
        features[name] = out.detach()
    return hook


class Watcher:
    def __init__(self, module):
        module.register_forward_hook(self.keep)

    def keep(self, module, given, out):
        self.out = out


net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).cuda()
WATCHED
head = nn.Linear(8, 2).cuda()
optimizer = torch.optim.Adam(net.parameters())
for x in torch.utils.data.DataLoader(torch.randn(8, 8), 4):
    loss = nn.functional.mse_loss(net(x.cuda()), x.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    head(READ)
"""


@pytest.mark.parametrize(
    ("watched", "read"),
    [
        ("net[1].register_forward_hook(lambda module, given, out: kept.append(out))", "kept[-1]"),
        ("net[1].register_forward_hook(named('body'))", 'features["body"]'),
        ("watcher = Watcher(net[1])", "watcher.out"),
    ],
)
def test_what_one_keeps_is_half_after_the_forward(watched, read):
    result = migrate_source(KEPT.replace("WATCHED", watched).replace("READ", read).encode(), Options())
    assert f"head({read}.float())" in result.output.decode(), result.findings
