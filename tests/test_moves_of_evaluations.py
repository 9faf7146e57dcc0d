"""What an evaluation moves to the GPU, after all training steps, does not decide about these."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--cuda", action="store_true")
parser.add_argument("--video", action="store_true")
args = parser.parse_args()

def show(net):
    net = nn.DataParallel(net).cuda()
    print(net(torch.randn(1, 4).cuda()).sum())

def evaluate(net):
    with torch.no_grad():
        if args.video:
            show(net)
        else:
            print(net(torch.randn(1, 4)).sum())

def train():
    net = nn.Linear(4, 2)
    if args.cuda:
        net = net.cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(3):
        for i in range(3):
            x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
            if args.cuda:
                x, y = x.cuda(), y.cuda()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
        BETWEEN
    BEHIND

train()
"""
CALLS = [
    "evaluate(net)",
    "if args.video:\n            evaluate(net)",
    "evaluate(net); show(net)",
    "net.cuda(); evaluate(net)",
]
ANEW = """\
other = nn.Linear(4, 2).cuda()
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    for i in range(3):
        loss = other(torch.randn(8, 4).cuda()).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()"""


def migrated(between="pass", behind="pass"):
    return migrate_source(
        SCRIPT.replace("BETWEEN", between).replace("BEHIND", behind).encode(), Options(api="torch.amp")
    )


@pytest.mark.parametrize("call", CALLS)
def test_between_epochs(call):
    result = migrated(between=call)
    assert 'GradScaler("cuda", enabled=args.cuda)' in result.output.decode(), result.findings


@pytest.mark.parametrize("call", CALLS)
def test_behind_the_training(call):
    result = migrated(behind=call.replace("        evaluate", "    evaluate"))
    assert 'GradScaler("cuda", enabled=args.cuda)' in result.output.decode(), result.findings


def test_another_training_behind_it_has_its_own():
    result = migrated(behind=ANEW)
    assert result.output.decode().count('GradScaler("cuda")') == 2, result.findings
