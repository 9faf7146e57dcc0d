"""Lists, dicts, instances of the project's own classes and numbers: what no cast to float32 is written on."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import collections
import torch
from torch import nn

class Box:
    def __init__(self, values):
        self.values = values

    def to(self, device):
        return Box(self.values.to(device))

class Pool:
    def __setitem__(self, key, item):
        self.kept = key, item

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        scores = self.layer(x)
        boxes = []
        for row in scores:
            boxes.append(Box(row))
        return scores, boxes

class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x, times):
        return self.layer(x) / times

model, half = Net().cuda(), Half().cuda()
optimizer = torch.optim.SGD([*model.parameters(), *half.parameters()], lr=0.1)
kept, pool = {made}, Pool()
for x, y, names in loader:
    optimizer.zero_grad()
    scores, boxes = model(x.cuda())
    loss = nn.functional.cross_entropy(half(scores, 4), y.cuda())
    loss.backward()
    optimizer.step()
    {after}
"""
STORES = {
    "a dict": ("dict()", 'kept["pred" + names[0]] = scores'),
    "an ordered dict": ("collections.OrderedDict()", "kept[names] = scores"),
    "a default dict": ("collections.defaultdict(list)", "kept[names] = scores"),
    "a display": ("{}", "kept[names] = scores"),
    "an instance": ("None", "pool[names] = boxes[0]"),
    "of a list": ("None", 'for one in [box.to("cpu") for box in boxes]:\n        pool[names] = one'),
    "moved twice": ("None", 'one = boxes[0].to("cpu")\n    pool[names] = one.to("cpu")'),
}


@pytest.mark.parametrize("what", STORES)
def test_what_is_stored_stays_as_it_is(what):
    made, after = STORES[what]
    source = SCRIPT.replace("{made}", made).replace("{after}", after)
    result = migrate_source(source.encode(), Options())
    assert result.status == "migrated"
    assert result.output.decode().endswith(f"    {after}\n")


def test_a_number_is_divided_by_as_it_is():
    """What another module of the same base is given in that place is half."""
    two = """
class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Net(), Half()

    def forward(self, x):
        scores, boxes = self.first(x)
        return self.second(scores, 4), boxes

mixed = Mixed()
"""
    source = SCRIPT.replace("nn.Module", "Base").replace("class Net", "class Base(nn.Module):\n    pass\n\nclass Net")
    source = source.replace("\nmodel, half", f"{two}\nmodel, half").replace(
        "def forward(self, x):", "def forward(self, x, y=0):"
    )
    source = source.replace("Net().cuda(), Half().cuda()", "Mixed().cuda(), Net().cuda()")
    source = source.replace("half(scores, 4)", "half(scores, scores)[0]")
    result = migrate_source(source.replace("{made}", "{}").replace("{after}", "").encode(), Options())
    assert result.status == "migrated"
    assert b"return self.layer(x) / times\n" in result.output


def test_a_tensor_gets_the_dtype_of_what_it_is_written_into():
    source = SCRIPT.replace("{made}", "torch.zeros(9, 3)").replace("{after}", "kept[y] = scores.detach().cpu()")
    result = migrate_source(source.encode(), Options())
    assert b"kept[y] = scores.detach().cpu().to(kept.dtype)" in result.output


NUMBERS = [
    "max(1.0 - 0.1 * self.steps, 0.5)",
    "min([0.5, 0.1 * self.steps])",
    "sum([0.1, 0.2]) + x.shape[0]",
    "abs(self.steps)",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_that_a_function_of_python_returns_is_one(number):
    source = f"""
import torch
from torch import nn
from torch.distributions import Bernoulli

class Drop(nn.Module):
    def forward(self, x, rate):
        return Bernoulli(rate).sample(x.shape).cuda() * x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.drop, self.steps = nn.Linear(4, 4), Drop(), 0

    def forward(self, x):
        x = self.fc(x)
        rate = 1 - {number} / 2
        return self.drop(x, rate=rate)

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = (model(torch.randn(4, 4).cuda()) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    result = migrate_source(source.encode(), Options())
    assert result.status == "migrated"
    assert b"Bernoulli(rate)" in result.output


@pytest.mark.parametrize("listed", ["list(map(lambda x: x.detach(), {}))", "[x.detach() for x in {}]", "tuple({})"])
def test_a_list_of_halves_for_a_critic_in_float32_is_refused(listed):
    source = f"""
import torch
from torch import autograd, nn

class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        results = []
        for layer in (self.first, self.second):
            x = layer(x)
            results.append(x)
        return results

class Loss:
    def __init__(self, critic):
        self.critic = critic

    def of_critic(self, real, fake):
        scores = self.critic(real) - self.critic(fake[0]) - self.critic(fake[1])
        slopes = autograd.grad(scores.sum(), real, create_graph=True)[0]
        return scores.mean() + slopes.pow(2).mean()

generator, critic = Generator().cuda(), nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
losses = Loss(critic)
for x in [torch.randn(2, 4).cuda().requires_grad_()]:
    fake = generator(x)
    fake = {listed.format("fake")}
    loss = losses.of_critic(x, fake)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    result = migrate_source(source.encode(), Options())
    assert b"fake.float()" not in result.output
    assert result.status == "left"
