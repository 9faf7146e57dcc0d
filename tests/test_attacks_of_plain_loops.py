"""An attack on the inputs makes gradients that no step takes: it stays in float32, and its training does not have to."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from torch import nn
from torch.nn import functional as F


def attack(model, x, y):
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(3):
        loss = F.cross_entropy(model(x + delta), y)
        loss.backward()
        delta.data += 0.01 * delta.grad.sign()
        delta.grad.zero_()
    return delta.detach()


def train(model, optimizer, batches):
    for x, y in batches:
        x, y = x.cuda(), y.cuda()
        BEFORE
        loss = F.cross_entropy(model(x), y)
        BETWEEN
        BACKWARD
        optimizer.step()
        AFTER


def evaluate(model, batches):
    for x, y in batches:
        x, y = x.cuda(), y.cuda()
        print(model(x + attack(model, x, y)))


def main():
    model = nn.Linear(8, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [(torch.randn(4, 8), torch.zeros(4, dtype=torch.long))]
    for epoch in range(3):
        train(model, optimizer, batches)
        evaluate(model, batches)


main()
"""
USUAL = {"BEFORE": "pass", "BETWEEN": "optimizer.zero_grad()", "BACKWARD": "loss.backward()", "AFTER": "pass"}
APART = {
    "evaluation": {},
    "training": {"BEFORE": "x = x + attack(model, x, y)"},
    "cleared at once": {"BEFORE": "x = x + attack(model, x, y); optimizer.zero_grad()", "BETWEEN": "pass"},
}
MET = {
    "cleared after the step": {"BETWEEN": "pass", "AFTER": "optimizer.zero_grad()"},
    "cleared before the attack": {"BEFORE": "optimizer.zero_grad(); x = x + attack(model, x, y)", "BETWEEN": "pass"},
    "after the backward": {"AFTER": "attack(model, x, y); optimizer.step()"},
    "stepped alone": {"BEFORE": "attack(model, x, y); optimizer.step()"},
    "between": {"BETWEEN": "optimizer.zero_grad(); attack(model, x, y)"},
    "in place of the backward": {"BACKWARD": "attack(model, x, y)"},
}


def migrated(changes):
    script = SCRIPT
    for name, text in {**USUAL, **changes}.items():
        script = script.replace(name, text)
    return migrate_source(script.encode(), Options(api="torch.amp"))


@pytest.mark.parametrize("name", APART)
def test_the_training_is_migrated_and_the_attack_is_not(name):
    result = migrated(APART[name])
    output = result.output.decode()
    assert output.count("scaler.scale(loss).backward()") == 1, result.findings
    assert output[: output.index("def train")] == SCRIPT[: SCRIPT.index("def train")]


@pytest.mark.parametrize("name", MET)
def test_gradients_of_an_attack_that_a_step_may_take_are_refused(name):
    result = migrated(MET[name])
    assert result.status == "left", result.output.decode()
    assert not any(one.code in ("AMP998", "AMP999") for one in result.findings)
