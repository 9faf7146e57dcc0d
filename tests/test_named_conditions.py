"""A test that another function keeps by a name is written out where the name is not known."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

ENGINE = """\
import argparse
import torch
from torch import nn


class Engine:
    def __init__(self, model, optimizer, args):
        self.model = model
        self.optimizer = optimizer

    def run(self, batches):
        for x, y in batches:
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    model = nn.Linear(6, 3)
    on = {test}
    if {asked}:
        model = model.cuda()
    batches = [(torch.randn(8, 6), torch.randint(0, 3, (8,))) for _ in range(4)]
    if {asked}:
        batches = [(x.cuda(), y.cuda()) for x, y in batches]
    Engine(model, torch.optim.SGD(model.parameters(), lr=0.1), args).run(batches)


main()
"""


@pytest.mark.parametrize(
    ("test", "asked", "written"),
    [
        ("torch.cuda.is_available()", "on", "torch.cuda.is_available()"),
        ("not args.cpu", "on", "not args.cpu"),
        ("args.cpu", "not on", "not args.cpu"),
        (
            "args.cpu or not torch.cuda.is_available()",
            "not on",
            "not (args.cpu or not torch.cuda.is_available())",
        ),
    ],
)
def test_a_test_is_written_out_where_its_name_is_not_known(test, asked, written):
    source = ENGINE.format(test=test, asked=asked)
    output = migrate_source(source.encode(), Options(api="torch.amp")).output.decode()
    assert f'self.scaler = torch.amp.GradScaler("cuda", enabled={written})' in output
    assert 'with torch.amp.autocast("cuda", enabled=self.scaler.is_enabled()):' in output
