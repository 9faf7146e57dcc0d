"""A value that is float32 on one path and half on another is stored in the dtype of where it goes."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(torch.randn(8, 4), 4):
    x = x.cuda()
    {bound}
    kept = x.clone()
    {stored}
    loss = (net(kept) - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BOUND = {
    "in a loop": "s = x\n    for _ in range(2):\n        s = net(s)",
    "in an arm": "s = x\n    if x.sum() > 0:\n        s = net(s)",
    "once": "s = net(x)",
}
STORED = {
    "by index": ("kept[[0, 1]] = s[[0, 1]]", "s[[0, 1]].to(kept.dtype)"),
    "by a mask": ("kept[x > 0] = s[x > 0]", "s[x > 0].to(kept.dtype)"),
    "by scatter": ("kept.scatter_(0, torch.zeros_like(x).long(), s)", "s.to(kept.dtype)"),
}


@pytest.mark.parametrize("bound", BOUND.values(), ids=BOUND)
@pytest.mark.parametrize(("stored", "repaired"), STORED.values(), ids=STORED)
def test_it_is_cast_where_it_is_stored(bound, stored, repaired):
    result = migrate_source(SCRIPT.format(bound=bound, stored=stored).encode(), Options(api="torch.amp"))
    assert repaired in result.output.decode(), result.findings


@pytest.mark.parametrize(("stored", "repaired"), STORED.values(), ids=STORED)
def test_what_no_region_makes_is_not(stored, repaired):
    source = SCRIPT.format(bound="s = x\n    for _ in range(2):\n        s = s.flip(0)", stored=stored)
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert repaired not in output and "autocast" in output


def test_what_is_cast_already_is_cast_no_more():
    stored = "kept[x > 0] = s[x > 0].to(kept.dtype)"
    output = migrate_source(SCRIPT.format(bound=BOUND["in a loop"], stored=stored).encode(), Options()).output.decode()
    assert output.count(".to(kept.dtype)") == 1


OUT_OF_SIGHT = {
    "in a loop": "s = helper(x)\n    for _ in range(2):\n        s = net(s)",
    "in an arm": "s = helper(x)\n    if x.sum() > 0:\n        s = net(x)",
    "of several": "s, _ = helper(x)\n    for _ in range(2):\n        s = net(s)",
}


def of_helper(bound, stored):
    source = "from lib import helper\n" + SCRIPT.format(bound=bound, stored=stored)
    source = source.replace("x.clone()", "torch.zeros(4, 4, device='cuda')")
    return migrate_source(source.encode(), Options(api="torch.amp"))


@pytest.mark.parametrize("bound", OUT_OF_SIGHT.values(), ids=OUT_OF_SIGHT)
@pytest.mark.parametrize(("stored", "repaired"), STORED.values(), ids=STORED)
def test_what_is_out_of_sight_on_another_path_is_cast_as_well(bound, stored, repaired):
    result = of_helper(bound, stored)
    assert repaired in result.output.decode(), result.findings


ZERO = "s = 0\n    if x.sum() > 0:\n        s = net(x)"


def test_what_is_a_number_on_another_path_is_not():
    assert [one.code for one in of_helper(ZERO, "kept[[0, 1, 2, 3]] = s").findings] == ["AMP985"]
    assert "s[[0, 1]].to(kept.dtype)" in of_helper(ZERO, "kept[[0, 1]] = s[[0, 1]]").output.decode()


def test_what_is_out_of_sight_on_all_paths_is_said():
    result = of_helper("s = helper(net(x))", "kept[[0, 1, 2, 3]] = s")
    assert "AMP185" in [one.code for one in result.findings] and ".to(kept.dtype)" not in result.output.decode()
