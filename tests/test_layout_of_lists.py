"""A parameter or an argument more, in the layout of the list that it joins."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

SCRIPT = """\
import torch
from torch import nn


def run{parameters}:
    loss = nn.functional.mse_loss(net(batch), batch)
    opt.zero_grad()
    loss.backward()
    opt.step()


def main():
    net = nn.Linear(8, 8).cuda()
    opt = torch.optim.Adam(net.parameters())
    for i in range(10):
        batch = torch.rand(4, 8).cuda()
        run{arguments}


main()
"""
LISTS = {
    "(batch, net, opt)": "(batch, net, opt, scaler)",
    "(batch, net, opt,)": "(batch, net, opt, scaler,)",
    "(\n    batch, net, opt\n)": "(\n    batch, net, opt, scaler\n)",
    "(\n    batch, net, opt,\n)": "(\n    batch, net, opt, scaler,\n)",
    "(\n    batch,\n    net,\n    opt\n)": "(\n    batch,\n    net,\n    opt,\n    scaler\n)",
    "(\n    batch,\n    net,\n    opt,\n)": "(\n    batch,\n    net,\n    opt,\n    scaler,\n)",
    "(batch,\n    net, opt)": "(batch,\n    net, opt, scaler)",
}


@pytest.mark.parametrize(("before", "after"), LISTS.items())
def test_a_list_keeps_its_layout(tmp_path, before, after):
    indented = {text: text.replace("\n", "\n        ") for text in (before, after)}
    write_tree(tmp_path, {"train.py": SCRIPT.format(parameters=before, arguments=indented[before]).encode()})
    (result,) = migrate_project([tmp_path], Options(api="torch.amp"))
    output = result.output.decode()
    assert f"def run{after}:\n" in output
    assert f"        run{indented[after]}\n" in output
