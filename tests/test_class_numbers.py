"""What may be the numbers of classes is not cast before NumPy, which takes no float for an index."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import numpy as np
import torch
from torch import nn

NAMES = np.array(list("abcd"))


def kind():
    return torch.long


def named(scores, found):
    classes = {made}
    classes[:] = scores.argmax(1)
    return NAMES[classes.cpu().numpy()]


net = nn.Linear(8, 4).cuda()
optimizer = torch.optim.Adam(net.parameters())
for x, y in torch.utils.data.DataLoader(data, 4):
    out = net(x.cuda())
    loss = nn.functional.cross_entropy(out, y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(named(out, y), out.detach().cpu().numpy())
"""


@pytest.mark.parametrize(
    "made", ["torch.empty(4, dtype=kind())", "torch.zeros(4, dtype=found.dtype)", "torch.zeros(4).type_as(found)"]
)
def test_a_dtype_that_is_not_known_is_not_taken_for_half(made):
    output = migrate_source(SCRIPT.format(made=made).encode(), Options()).output.decode()
    assert "NAMES[classes.cpu().numpy()]" in output
    assert "out.float().detach().cpu().numpy()" in output


PARTS = """\
import numpy as np
import torch
from torch import nn


def arrays(*given):
    return [one.detach().cpu().numpy() for one in given]


def array(given):
    return given.detach().cpu().numpy()


class Kept:
    def show(self):
        print(self.value.cpu().numpy())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 4)

    def forward(self, x):
        out = self.body(x)
        return out, out.argmax(1)


net, kept = Net().cuda(), Kept()
optimizer = torch.optim.Adam(net.parameters())
for x, y in torch.utils.data.DataLoader(data, 4):
    outs = net(x.cuda())
    loss = nn.functional.cross_entropy(outs[0], y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    USE
"""
OF_EITHER = {
    "in a loop": "for one in outs:\n        print(one.detach().cpu().numpy())",
    "of some place": "print(outs[int(y[0]) % 2].detach().cpu().numpy())",
    "moved before": "outs = [one.detach().cpu() for one in outs]\n    print([one.numpy() for one in outs])",
    "mapped": "print(*map(array, outs))",
    "behind a star": "print(*arrays(*outs))",
}


@pytest.mark.parametrize("use", OF_EITHER)
def test_of_parts_that_cannot_be_told_apart_the_half_ones_are_cast_where_they_are_made(use):
    output = migrate_source(PARTS.replace("USE", OF_EITHER[use]).encode(), Options()).output.decode()
    assert "return out.float(), out.argmax(1)" in output
    assert output.count(".float()") == 1


@pytest.mark.parametrize("other", ["y", "np.zeros(3)"])
def test_what_an_attribute_keeps_beside_something_else_is_cast_where_it_is_stored(other):
    use = f"kept.value = outs[0].detach()\n    kept.show()\n    kept.value = {other}"
    output = migrate_source(PARTS.replace("USE", use).encode(), Options()).output.decode()
    assert "kept.value = outs[0].detach().float()" in output
    assert output.count(".float()") == 1
