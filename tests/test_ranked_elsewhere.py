"""A function of a file that is not read gets float32 after a region, unless it only ranks what it is given."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

TRAIN = """\
import torch
from torch import nn

from util import accuracy

model = nn.Linear(16, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in loader:
    labels = labels.cuda()
    output = model(images.cuda())
    loss = nn.functional.cross_entropy(output, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print({call})
"""
BODIES = {
    "_, found = output.topk(max(topk), 1, True, True)\n    return found.t().eq(target).sum() / output.size(0)": True,
    "return (output.argmax(1) == target).sum() / output.shape[0]": True,
    "return (output.max(1)[1] == target).float().mean()": True,
    "best, found = output.max(1)\n    return best.sum()": False,
    "return output.max(1)[0].sum()": False,
    "return output.sum()": False,
    "return (output - target.float()[:, None]).pow(2).sum()": False,
    "return output.tolist()": False,
    "return [one.sum() for one in output]": False,
    "return measured(output, target)": False,
}


@pytest.mark.parametrize(("body", "ranks"), BODIES.items())
@pytest.mark.parametrize("call", ["accuracy(output, labels)", "accuracy(target=labels, output=output)"])
def test_what_is_only_ranked_stays_half(tmp_path, call, body, ranks):
    util = f"def accuracy(output, target, topk=(1, 5)):\n    {body}\n"
    write_tree(tmp_path, {"train.py": TRAIN.format(call=call).encode(), "util.py": util.encode()})
    results = migrate_project([tmp_path], Options(api="torch.amp"))
    (output,) = (one.output.decode() for one in results if one.status == "migrated")
    assert (call in output) == ranks


def test_what_stands_behind_a_star_is_not_known_to_be_ranked(tmp_path):
    util = "def accuracy(output, target):\n    return (output.argmax(1) == target).float().sum() + target.sum()\n"
    call = "accuracy(*[labels], output)"
    write_tree(tmp_path, {"train.py": TRAIN.format(call=call).encode(), "util.py": util.encode()})
    results = migrate_project([tmp_path], Options(api="torch.amp"))
    (output,) = (one.output.decode() for one in results if one.status == "migrated")
    assert "accuracy(*[labels], output.float())" in output
