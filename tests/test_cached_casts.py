"""A forward without gradients before one with gradients: the casts of its weights must not be kept in between."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import argparse
import torch
from apex import amp
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--multi", action="store_true")
args = parser.parse_args()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        return self.proj(x)

    def generate(self, x):
        return self.proj(x).argmax(-1)


net = Model().cuda()
nets = [net]
named = {{"net": net}}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net, optimizer = amp.initialize(net, optimizer, opt_level="O1")
{alias}
labels = None
for step in range(10):
    x = torch.randn(8, 4).cuda()
    if step % 4 == 0:
        with torch.no_grad():
            labels = {first}
    loss = nn.functional.cross_entropy({second}, labels)
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
"""
FIRST = {
    "the model": ("", "net(x).argmax(-1)"),
    "a method": ("", "net.generate(x)"),
    "an alias": ("other = net.module if args.multi else net", "other(x).argmax(-1)"),
    "a method of an alias": ("other = net.module if args.multi else net", "other.generate(x)"),
    "a list": ("nets = [net]", "nets[0](x).argmax(-1)"),
    "a dict": ('named = {"net": net}', 'named["net"].generate(x)'),
    "forward": ("", "net.forward(x).argmax(-1)"),
}


def migrated(alias: str, first: str, second: str) -> str:
    result = migrate_source(SCRIPT.format(alias=alias, first=first, second=second).encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result
    return result.output.decode()


@pytest.mark.parametrize("second", ["net(x)", "net.forward(x)"])
@pytest.mark.parametrize("how", FIRST)
def test_no_cast_is_kept_from_a_forward_without_gradients(how, second):
    """Regions of their own keep none either."""
    output = migrated(*FIRST[how], second)
    with_first = output[: output.index("loss = ")].rstrip()
    assert "cache_enabled=False" in output or with_first.endswith('with torch.amp.autocast("cuda"):'), output


def test_another_model_keeps_its_casts():
    output = migrated("teacher = nn.Linear(4, 4).cuda().eval()", "teacher(x).argmax(-1)", "net(x)")
    assert "cache_enabled" not in output


@pytest.mark.parametrize(
    ("between", "cached"),
    [
        ("torch.nn.utils.vector_to_parameters(mean, net.parameters())", False),
        ("net.load_state_dict(other)", False),
        ("mean = torch.nn.utils.parameters_to_vector(net.parameters())", True),
    ],
)
def test_no_cast_is_kept_where_a_module_gets_other_weights(between, cached):
    """A region of its own for each forward would keep none either."""
    helper = f"def both(x):\n    first = net(x)\n    {between}\n    return first, net(x)\n"
    output = migrated(helper, "x[:, 0].long()", "sum(both(x))")
    assert ("cache_enabled=False" not in output) == cached
