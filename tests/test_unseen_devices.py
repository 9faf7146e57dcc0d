"""Trainings on the device of something that a caller, or a base class, has."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

STEP = """\
    def train_step(self, x, y):
        device = {device}
        self.optimizer.zero_grad()
        loss = (self.net(x.to(device)) - {moved}).pow(2).mean()
        loss.backward()
        self.optimizer.step()
"""
UNSEEN = """\
import torch
{more}

class Net({base}):
    def __init__(self, net, optimizer):
        super().__init__()
        {own}

"""
FUNCTION = """\
import torch

def fit(net, batches, optimizer):
    {line}
    for x, y in batches:
        loss = (net({x}) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
OWN = "self.net, self.optimizer = net, optimizer"
FOLLOWING = {
    "the device of a base": UNSEEN.format(more="from argus import Model", base="Model", own="pass")
    + STEP.format(device="self.device", moved="y.to(device)"),
    "without a name": UNSEEN.format(more="import argus", base="argus.Model", own="pass")
    + STEP.format(device="None", moved="y.to(device=self.device)"),
    "of a model of a constructor": UNSEEN.format(more="", base="object", own=OWN)
    + STEP.format(device="next(self.net.parameters()).device", moved="y.to(device)"),
    "of a model": FUNCTION.format(line="device = next(net.parameters()).device", x="x.to(device)"),
    "at once": FUNCTION.format(line="", x="x.to(next(iter(net.parameters())).device)"),
    "of its own": FUNCTION.format(line="", x="x.to(net.device)"),
}
CALLER = "\nnet = torch.nn.Linear(4, 2){}\nfit(net, [], torch.optim.SGD(net.parameters(), 0.1))\n"


@pytest.mark.parametrize("source", FOLLOWING.values(), ids=FOLLOWING)
def test_what_follows_something_out_of_sight_to_its_device_is_told(source):
    result = migrate_source(source.encode(), Options())
    assert [finding.code for finding in result.findings] == ["AMP951"]


@pytest.mark.parametrize("source", [one for one in FOLLOWING.values() if one.startswith(FUNCTION[:40])])
@pytest.mark.parametrize(("moved", "status"), [("", "untouched"), (".cuda()", "migrated")])
def test_a_caller_in_sight_says_which_device_it_is(source, moved, status):
    result = migrate_source((source + CALLER.format(moved)).encode(), Options())
    assert (result.status, [one.code for one in result.findings if one.code == "AMP951"]) == (status, [])


@pytest.mark.parametrize("x", ["x", "x.to(device)"])
def test_without_a_word_of_a_device_nobody_is_told(x):
    source = FUNCTION.format(line="device = torch.device('cpu')", x=x)
    assert migrate_source(source.encode(), Options()).findings == ()


GIVEN = [
    "torch.multiprocessing.Process(target=fit, args=(net, [], optimizer)).start()",
    "import multiprocessing as mp\nmp.Process(args=(net, [], optimizer), target=fit).start()",
    "jobs = {'fit': fit}\nrun(jobs, net, optimizer)",
    "pool.apply_async(fit, (net, [], optimizer))",
]
MAKING = "\nnet = torch.nn.Linear(4, 2){}\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\n"


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize(("moved", "codes"), [("", []), (".cuda()", ["AMP951"]), (".to('cuda:1')", ["AMP951"])])
def test_a_training_that_is_given_to_others_is_told_where_something_goes_to_the_gpu(given, moved, codes):
    source = FUNCTION.format(line="pass", x="x") + MAKING.format(moved) + given
    assert [one.code for one in migrate_source(f"{source}\n".encode(), Options()).findings] == codes
