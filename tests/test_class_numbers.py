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
