"""A program whose forward mixes half and float32: layers, products, writes by index, masks, NumPy, losses."""

from __future__ import annotations

import re
from random import Random

# Of tensors `a` and `b` of 6 rows and 8 columns; `m` is a mask of the same shape, and `d` the device.
UNARY = """\
torch.sigmoid({a})
torch.tanh({a})
F.relu({a})
F.softmax({a}, 1)
F.log_softmax({a}, 1)
{a}.exp().clamp(max=50)
F.normalize({a}, dim=1)
{a} / ({a}.norm(dim=1, keepdim=True) + 1e-8)
({a} ** 2).clamp(max=100)
torch.log({a}.abs() + 1e-8)
torch.sqrt({a}.pow(2) + 1e-8)
F.layer_norm({a}, (8,))
self.norm({a})
self.first({a})
self.second({a})
{a} @ self.weight
F.linear({a}, self.weight)
{a}.view(6, 2, 4).transpose(1, 2).reshape(6, 8)
{a} - {a}.mean(0, keepdim=True)
{a}.detach()
{a}[rows]
torch.einsum("bd,de->be", {a}, self.weight)
{a}.cumsum(1)
{a}.sort(1)[0]
{a}.masked_fill({m}, -1e9).softmax(1)
{a} + (1 - {m}.to({a}.dtype)) * -10000.0
{a}.float()
{a} * self.scale
torch.full_like({a}, 0.5) * {a}
torch.addmm(self.bias, {a}, self.weight)
torch.bmm({a}.unsqueeze(1), self.weight.expand(6, 8, 8)).squeeze(1)
self.conv({a}.unsqueeze(1)).squeeze(1)
self.attention({a}.unsqueeze(1), {a}.unsqueeze(1), {a}.unsqueeze(1))[0].squeeze(1)
self.cell({a}, {a})
self.lstm({a}.unsqueeze(1))[0].squeeze(1)
{a}.new_zeros(6, 8).copy_({a})
torch.softmax({a} / 0.07, 1)
({a} - {a}.mean(1, keepdim=True)) / ({a}.std(1, keepdim=True) + 1e-6)
torch.acos({a}.tanh().clamp(-1 + 1e-7, 1 - 1e-7))
helper({a})
self.part({a})
""".splitlines()
BINARY = """\
{a} + {b}
{a} * {b}
torch.cat([{a}, {b}], 1)[:, ::2]
torch.stack([{a}, {b}]).mean(0)
torch.where({m}, {a}, {b})
torch.max({a}, {b})
torch.lerp({a}, {b}, 0.3)
torch.addcmul({a}, {b}, {b})
{a} / ({b}.abs() + 1e-3)
F.cosine_similarity({a}, {b}, dim=1).unsqueeze(1).expand(6, 8)
torch.matmul({a}, {b}.t()) @ {b}
F.softmax({a} @ {b}.t(), 1) @ {b}
torch.scatter({a}, 1, places, {b})
{a}.scatter_add(1, places, {b})
{a}.index_add(0, rows, {b})
{a}.index_copy(0, rows, {b})
{a}.gather(1, places) * {b}
torch.cdist({a}, {b}).mean(1, keepdim=True).expand(6, 8)
{a}.masked_scatter({m}, {b})
{a}.clone().index_copy_(0, rows, {b})
torch.tensor({b}.detach().cpu().numpy().sum(1), device={d}).unsqueeze(1) * {a}
mix({a}, {b})
""".splitlines()
WRITES = [
    ["{v} = torch.zeros(6, 8, device={d})", "{v}[rows] = {a}"],
    ["{v} = {b}.clone()", "{v}[{m}] = {a}[{m}]"],
    ["{v} = torch.zeros_like({b})", "{v}[:, :4] = {a}[:, :4]"],
    ["{v} = torch.zeros(6, 8).to({d})", "{v}.scatter_(1, places, {a})"],
    ["{v} = {b}.clone()", "{v} += {a}"],
    ["{v} = {b}.clone()", "{v}.index_put_((rows,), {a})"],
    ["{v} = torch.zeros(6, 8, device={d})", "{v}.index_add_(0, rows, {a})"],
    ["{v} = torch.empty(6, 8, device={d})", "for i in range(6):", "    {v}[i] = {a}[i] * {b}[i]"],
    ["kept = []", "for i in range(6):", "    kept.append({a}[i] + {b}[i])", "{v} = torch.stack(kept)"],
    ["{v} = {b}", "for _ in range(2):", "    {v} = {v} + self.first({a})"],
    ["if {a}.sum() > 0:", "    {v} = {a}", "else:", "    {v} = {b}"],
    ["self.memory[rows] = {a}.detach()", "{v} = self.memory * {b}"],
    ["{v} = torch.zeros(6, 8, dtype={a}.dtype, device={d})", "{v}[{m}] = {b}[{m}]"],
    ["self.memory.mul_(0.9).add_({a}.detach(), alpha=0.1)", "{v} = {b} + self.memory"],
]
LOSSES = """\
F.mse_loss({a}, target)
F.cross_entropy({a}, y)
F.binary_cross_entropy(torch.sigmoid({a}), soft)
F.binary_cross_entropy_with_logits({a}, soft)
-(soft * torch.log(torch.sigmoid({a}) + 1e-8) + (1 - soft) * torch.log(1 - torch.sigmoid({a}) + 1e-8)).mean()
F.kl_div(F.log_softmax({a}, 1), F.softmax({b}, 1), reduction="batchmean")
F.nll_loss(F.log_softmax({a}, 1), y)
F.cosine_embedding_loss({a}, {b}, torch.ones(6, device={d}))
F.triplet_margin_loss({a}, {b}, target)
-torch.log(F.softmax({a}, 1)[torch.arange(6), y] + 1e-10).mean()
nn.BCELoss()(torch.sigmoid({a}), soft)
F.mse_loss(torch.matmul({a}.t(), {a}) / 6, torch.matmul(target.t(), target) / 6)
""".splitlines()
HELPERS = """\
x * 2
F.softmax(x, 1)
x / x.norm(dim=1, keepdim=True)
x.masked_fill(x > 1, -1e8).softmax(1)
torch.eye(8, device=x.device)[x.argmax(1)] * x
""".splitlines()
MIXERS = """\
x * y
torch.where(x > y, x, y)
x.clone().index_copy_(0, torch.arange(6, device=x.device), y)
torch.stack((x, y), 1).max(1)[0]
""".splitlines()
_PROGRAM = """\
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed({seed})


def helper(x):
    return {helper}


def mix(x, y):
    return {mixer}


class Part(nn.Module):
    def forward(self, x):
        return {part}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.conv = nn.Conv1d(1, 1, 3, padding=1)
        self.attention = nn.MultiheadAttention(8, 2)
        self.cell = nn.GRUCell(8, 8)
        self.lstm = nn.LSTM(8, 8)
        self.part = Part()
        self.weight = nn.Parameter(torch.randn(8, 8) * 0.3)
        self.bias = nn.Parameter(torch.zeros(8))
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("memory", torch.zeros(6, 8))

    def forward(self, x, noise, mask, places):
        rows = torch.randperm(6, device=x.device)
        h = self.first(x)
{forward}
        return {returned}


device = torch.device("cuda")
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(2):
    x, noise, target = torch.randn(6, 8).cuda(), torch.randn(6, 8).cuda(), torch.randn(6, 8).cuda()
    soft, y = torch.rand(6, 8).cuda(), torch.randint(0, 8, (6,)).cuda()
    mask, places, rows = torch.rand(6, 8).cuda() > 0.5, torch.randint(0, 8, (6, 8)).cuda(), torch.randperm(6).cuda()
    out = net(x, noise, mask, places)
{after}
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
"""


def program(seed: int) -> str:
    """The program of a number: the same one each time."""
    random = Random(seed)
    forward = _Block(random, ["x", "noise", "h"], {"h"}, "x.device")
    forward.draw(random.randint(2, 5))
    returned = forward.last_trained()
    after = _Block(random, ["noise", "target", "out"], {"out"}, "device", receiver="net")
    after.draw(random.choice([0, 0, 1, 2]))
    a = after.last_trained()
    b = random.choice([name for name in after.names if name != a])
    return _PROGRAM.format(
        seed=seed,
        helper=random.choice(HELPERS),
        mixer=random.choice(MIXERS),
        part=random.choice(HELPERS),
        forward=forward.text(2),
        returned=returned,
        after=after.text(1),
        loss=random.choice(LOSSES).format(a=a, b=b, d="device"),
    )


class _Block:
    """Statements of tensors; `trained` are the names of those that a gradient reaches."""

    def __init__(
        self, random: Random, names: list[str], trained: set[str], device: str, receiver: str = "self"
    ) -> None:
        self.random = random
        self.names = names
        self.trained = trained
        self.device = device
        self.receiver = receiver
        self.lines: list[str] = []

    def draw(self, count: int) -> None:
        for _ in range(count):
            form = self.random.random()
            if form < 0.7:
                lines = ["{v} = " + self.random.choice(UNARY if form < 0.4 else BINARY)]
            else:
                lines = self.random.choice(WRITES)
            self._add(lines, self.random.choice(self.names[-3:]), self.random.choice(self.names))

    def last_trained(self) -> str:
        """A name that a gradient reaches: the last one, together with an earlier one where it must."""
        if self.names[-1] not in self.trained:
            self._add(["{v} = " + self.random.choice(BINARY)], self.names[-1], min(self.trained))
        return self.names[-1] if self.names[-1] in self.trained else min(self.trained)

    def text(self, depth: int) -> str:
        return "\n".join("    " * depth + line for line in self.lines)

    def _add(self, lines: list[str], a: str, b: str) -> None:
        name = f"t{len(self.names)}"
        mask = self.random.choice(["mask", f"({a} > 0)", "(noise > 0.3)"])
        made = [line.format(a=a, b=b, m=mask, v=name, d=self.device) for line in lines]
        made = [line.replace("self.", f"{self.receiver}.") for line in made]
        self.lines += made
        self.names.append(name)
        read = set(re.findall(r"\w+", " ".join(made)))
        if read & self.trained and not any(".detach()" in line for line in made):
            self.trained.add(name)
