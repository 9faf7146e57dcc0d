"""An attack on the inputs makes gradients that no step takes: it stays in float32, and its training does not have to."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source
from tests.drawn.run import CLOSE, run

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


LOOP = """\
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
PERSISTENT
for step in range(4):
    x, y = torch.randn(16, 8).cuda(), torch.randint(0, 4, (16,)).cuda()
    ATTACK
    ANEW
    loss = F.cross_entropy(model(x + delta), y)
    CLEAR
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
"""
START = "delta = torch.zeros_like(x).uniform_(-0.1, 0.1)"
FGSM = f"""{START}
    delta.requires_grad = True
    output = model(x + delta)
    loss = F.cross_entropy(output, y)
    loss.backward()
    chosen = output.max(1)[1] == y
    delta.data[chosen] = (delta + 0.5 * torch.sign(delta.grad.detach()))[chosen]"""
PGD = f"""{START}
    for _ in range(3):
        delta.requires_grad = True
        loss = F.cross_entropy(model(x + delta), y)
        optimizer.zero_grad()
        loss.backward()
        delta.data += 0.2 * delta.grad.sign()
        delta.grad.zero_()"""
WITH_OPTIMIZER = """delta = perturbed(x, y)"""
PERTURBED = """
def perturbed(x, y):
    delta = 0.001 * torch.randn(x.shape).cuda()
    delta = torch.autograd.Variable(delta.data, requires_grad=True)
    optimizer_delta = torch.optim.SGD([delta], lr=0.3)
    for _ in range(3):
        loss = -F.cross_entropy(model(x + delta), y)
        optimizer_delta.zero_grad()
        loss.backward()
        delta.grad.div_(delta.grad.norm(p=2, dim=1).view(-1, 1))
        optimizer_delta.step()
    return delta.detach()

"""
FITTED = PERTURBED.replace("        delta.grad.div_(delta.grad.norm(p=2, dim=1).view(-1, 1))\n", "")
IN_THE_LOOP = {"PERSISTENT": "", "ATTACK": FGSM, "ANEW": "delta = delta.detach()", "CLEAR": "optimizer.zero_grad()"}
LOOPS = {
    "one step": {},
    "several steps": {"ATTACK": PGD},
    "cleared by the model": {"CLEAR": "model.zero_grad()"},
    "with an optimizer of its own": {"PERSISTENT": PERTURBED, "ATTACK": WITH_OPTIMIZER},
}
MET_IN_THE_LOOP = {
    "never cleared": {"CLEAR": ""},
    "cleared on some paths": {"CLEAR": "if step % 2: optimizer.zero_grad()"},
    "cleared before": {"ATTACK": f"optimizer.zero_grad()\n    {FGSM}", "CLEAR": ""},
    "stepped": {"ATTACK": f"{FGSM}\n    optimizer.step()"},
    "a tensor that the loss has as well": {
        "PERSISTENT": "delta = torch.zeros(16, 8).cuda().requires_grad_()",
        "ATTACK": FGSM.removeprefix(START),
        "ANEW": "",
    },
    "an optimizer of its own, never cleared": {"PERSISTENT": PERTURBED, "ATTACK": WITH_OPTIMIZER, "CLEAR": ""},
    "a fit through the model, never cleared": {"PERSISTENT": FITTED, "ATTACK": WITH_OPTIMIZER, "CLEAR": ""},
}


def written(parts):
    script = LOOP
    for name, text in {**IN_THE_LOOP, **parts}.items():
        script = script.replace(name, text)
    return script


@pytest.mark.parametrize("name", LOOPS)
def test_an_attack_in_the_loop_stays_in_float32(name):
    script = written(LOOPS[name])
    result = migrate_source(script.encode(), Options(api="torch.amp"))
    output = result.output.decode()
    assert output.count("autocast(") == output.count("scaler.scale(loss).backward()") == 1, result.findings
    assert [*run(output).losses] == pytest.approx([*run(script).losses], abs=CLOSE)


@pytest.mark.parametrize("name", MET_IN_THE_LOOP)
def test_an_attack_in_the_loop_whose_gradients_may_be_taken_is_refused(name):
    result = migrate_source(written(MET_IN_THE_LOOP[name]).encode(), Options(api="torch.amp"))
    assert result.status == "left", result.output.decode()
    assert not any(one.code in ("AMP998", "AMP999") for one in result.findings)


def test_the_loss_of_a_function_that_attacks_is_made_under_autocast():
    loss = "    loss = F.cross_entropy(model(x + delta), y)\n"
    made = f"def attacked(x, y):\n    delta = perturbed(x, y)\n    optimizer.zero_grad()\n{loss}    return loss\n"
    script = written({"PERSISTENT": PERTURBED + made, "ATTACK": "", "ANEW": "", "CLEAR": ""})
    script = script.replace(loss + "    \n", "    loss = attacked(x, y)\n")
    output = migrate_source(script.encode(), Options(api="torch.amp")).output.decode()
    assert f"    with torch.amp.autocast('cuda'):\n    {loss}    return loss" in output.replace('"', "'")
    assert [*run(output).losses] == pytest.approx([*run(script).losses], abs=CLOSE)
