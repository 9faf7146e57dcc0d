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
