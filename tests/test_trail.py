"""Which ways a probability may take from a sigmoid to a binary cross entropy: every other one is refused."""

from __future__ import annotations

import textwrap

import pytest

from amp_migrate import Options, Result, migrate_source

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.gate = nn.Linear(4, 4)
        self.act = nn.Sigmoid()

    def forward(self, x):
        z = self.fc(x)
{forward}


def keep(kept, value):
    kept["p"] = value


net = Net().cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
for step in range(5):
    x = torch.randn(16, 4).cuda()
    y = (x > 0).float()
    optimizer.zero_grad()
    p = net(x)
{use}
    loss = criterion({given}, y)
    loss.backward()
    optimizer.step()
"""

# What the forward does with its scores z, what becomes of its result p, and what the loss is given.
HALF = {
    "a layer": ("return F.linear(torch.sigmoid(z), torch.eye(4).cuda())", "", "p"),
    "a gate in half": ("return torch.sigmoid(z) * self.gate(x).clamp(0, 1)", "", "p"),
    "no sigmoid": ("return z.clamp(0, 1)", "", "p"),
    "only in training": ("if self.training:\n    z = self.act(z)\nreturn z", "", "p"),
    "of an earlier round": ("for _ in range(2):\n    q = z\n    z = torch.sigmoid(z)\nreturn q", "", "p"),
    "in a loop": ("q = self.act(z)\nwhile q.mean() > 2:\n    q = z\nreturn q", "", "p"),
    "after an error": ("try:\n    q = self.act(z)\nexcept ValueError:\n    q = z\nreturn q", "", "p"),
    "in a part of a tensor": ("q = torch.zeros(16, 4).cuda()\nq[:, 0] = z[:, 0].clamp(0, 1)\nreturn q", "", "p"),
    "over a sigmoid": ("q = self.act(z)\nq[z > 3] = z[z > 3]\nreturn q", "", "p"),
    "copied into it": ("q = self.act(z)\nq.copy_(z.clamp(0, 1))\nreturn q", "", "p"),
    "multiplied in place": ("q = self.act(z)\nq.mul_(self.gate(x).clamp(0, 1))\nreturn q", "", "p"),
    "written over it": ("q = self.act(z)\ntorch.clamp(z, 0, 1, out=q)\nreturn q", "", "p"),
    "a lambda": ("squash = lambda t: t.clamp(0, 1)\nreturn squash(z)", "", "p"),
    "from the end of a list": ("return [z.clamp(0, 1), self.act(z)]", "", "p[-2]"),
    "inserted into a list": ("q = [self.act(z)]\nq.insert(0, z.clamp(0, 1))\nreturn q", "", "p[0]"),
    "a slice of a list": ("q = [self.act(z)] * 3\nq[1:2] = [z.clamp(0, 1)]\nreturn q", "", "p[1]"),
    "what is left of a tuple": ("return z, self.act(z), z.clamp(0, 1)", "first, *p = p", "p[1]"),
    "an attribute": ("self.q = self.act(z)\nreturn z", "net.q = p.clamp(0, 1)", "net.q"),
    "kept by a function": ("return self.act(z), z", "d = {}\nkeep(d, p[0])\nkeep(d, p[1].clamp(0, 1))", "d['p']"),
    "a buffer in half": ("q = torch.zeros_like(z)\nq[:] = self.act(z)\nreturn q", "", "p"),
    "the dtype of another": ("return self.act(z).to(z.dtype)", "", "p"),
    "gathered": ("return z.clamp(0, 1)", "p = p.gather(1, torch.zeros(16, 4).long().cuda())", "p"),
    "zipped": ("return [z.clamp(0, 1)], [self.act(z)]", "for q, _ in zip(p[0], p[1]):\n    pass", "q"),
}
FOLLOWED = {
    "a product of matrices": ("return torch.sigmoid(z) @ torch.eye(4).cuda()", "", "p"),
    "a tuple": ("return z.clamp(0, 1), self.act(z)", "", "p[-1]"),
    "a product of two": ("return torch.sigmoid(z) * torch.sigmoid(self.gate(x))", "", "p"),
    "a hyperbolic tangent": ("return (torch.tanh(z) + 1) / 2", "", "p"),
    "a local function": ("def squash(t):\n    return torch.sigmoid(t)\nreturn squash(z)", "", "p"),
    "a dict": ("return {'z': z, 'p': self.act(z)}", "", "p['p']"),
    "what a dict gets": ("q = dict(z=z)\nq.update(p=self.act(z))\nreturn q", "", "p.get('p')"),
    "a comprehension": ("return [self.act(t) for t in z.chunk(2, 1)]", "", "torch.cat(p, 1)"),
    "zipped": ("return [z.clamp(0, 1)], [self.act(z)]", "for _, q in zip(p[0], p[1]):\n    pass", "q"),
    "enumerated": ("return [self.act(z)]", "for i, q in enumerate(p):\n    pass", "q"),
    "both arms": ("if self.training:\n    z = self.act(z)\nelse:\n    z = z.sigmoid()\nreturn z", "", "p"),
    "half of a sum": ("return self.act(z)", "p = 0.5 * p + 0.5 * (1 - p)", "p"),
    "into zeros": ("q = torch.zeros(16, 4).cuda()\nq[:, :2] = self.act(z)[:, :2]\nreturn q", "", "p"),
    "one of several": ("return 1 - (1 - self.act(z)).prod(1, keepdim=True).expand(16, 4)", "", "p"),
    "moved": ("return self.act(z)", "p = p.to('cuda', non_blocking=True).to(torch.float32)", "p"),
    "an exponential": ("return 1 / (1 + torch.exp(-z))", "", "p"),
}


def _migrated(forward: str, use: str, given: str) -> Result:
    script = SCRIPT.format(
        forward=textwrap.indent(forward, " " * 8), use=textwrap.indent(use, " " * 4), given=given
    ).replace("\n\n    loss", "\n    loss")
    compile(script, "train.py", "exec")
    return migrate_source(script.encode(), Options(api="torch.amp"))


@pytest.mark.parametrize("shape", HALF)
def test_what_may_be_half_is_refused(shape: str):
    assert [finding.code for finding in _migrated(*HALF[shape]).findings] == ["AMP967"]


@pytest.mark.parametrize("shape", FOLLOWED)
def test_sigmoids_are_found(shape: str):
    result = _migrated(*FOLLOWED[shape])
    assert result.status == "migrated"
    sigmoids = [line for line in result.output.decode().splitlines() if "act(" in line or "sigmoid(" in line]
    assert all(".float()" in line for line in sigmoids)
