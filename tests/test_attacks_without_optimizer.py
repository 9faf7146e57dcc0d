"""An attack on the input that is given an optimizer in training only: without one, its loss must not be scaled."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_project
from tests.unit_fixture import write_tree

UTILS = """\
import torch
import torch.nn.functional as F
from apex import amp


def attack(model, X, y, opt=None):
    delta = torch.zeros_like(X).cuda()
    delta.requires_grad = True
    loss = F.cross_entropy(model(X + delta), y)
    if {test}:
        with amp.scale_loss(loss, opt) as scaled_loss:
            scaled_loss.backward()
    else:
        loss.backward()
    return (delta + 0.1 * delta.grad.detach()).detach()
"""
TRAIN = """\
import torch
from apex import amp
from utils import attack

model = torch.nn.Linear(784, 10).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model, opt = amp.initialize(model, opt, opt_level="O1")
for X, y in [(torch.randn(8, 784), torch.randint(0, 10, (8,)))]:
    X, y = X.cuda(), y.cuda(){attack}
    opt.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(X), y)
    with amp.scale_loss(loss, opt) as scaled_loss:
        scaled_loss.backward()
    opt.step()
delta = attack(model, X, y)
print(model(X + delta).max(1)[1])
"""
TESTS = ["opt is not None", "opt", "not opt is None"]


CALLS = {
    "evaluates": ("", ""),
    "trains as well": ("\n    X = X + attack(model, X, y, opt)", ""),
    "is followed by one that is scaled": ("", "X = X + attack(model, X, y, opt)\n"),
}


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("name", CALLS)
def test_a_loss_without_an_optimizer_is_never_scaled(tmp_path, test, name):
    inside, behind = CALLS[name]
    files = {"train.py": TRAIN.format(attack=inside) + behind, "utils.py": UTILS.format(test=test)}
    write_tree(tmp_path, {name: text.encode() for name, text in files.items()})
    results = migrate_project([tmp_path], Options(api="torch.amp"))
    if behind:  # plain gradients would meet scaled ones
        assert {result.status for result in results} == {"left"}
        return
    attack = next(result.output.decode() for result in results if result.path.endswith("utils.py"))
    assert f"    if {test}:\n        scaler.scale(loss).backward()\n    else:\n        loss.backward()\n" in attack


SEVERAL_STEPS = """\
import torch
import torch.nn.functional as F
from apex import amp


def attack(model, X, y, opt=None):
    delta = torch.zeros_like(X).cuda()
    delta.requires_grad = True
    for _ in range(3):
        loss = F.cross_entropy(model(X + delta), y)
        if {test}:
            with amp.scale_loss(loss, opt) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        delta.data = delta.data + 0.05 * torch.sign(delta.grad.detach())
        delta.grad.zero_()
    return delta.detach()
"""
OF_AN_EPOCH = """\
import torch
from apex import amp
from utils import attack

model = torch.nn.Linear(784, 10).cuda()
opt = {made}
model, opt = amp.initialize(model, opt, opt_level="O1")
for epoch in range(3):
    for X, y in [(torch.randn(8, 784).cuda(), torch.randint(0, 10, (8,)).cuda())]:
        loss = torch.nn.functional.cross_entropy(model(X), y)
        {cleared}
        with amp.scale_loss(loss, opt) as scaled_loss:
            scaled_loss.backward()
        opt.step()
    attack(model, X, y, {given})
delta = attack(model, X, y)
"""
SGD = "torch.optim.SGD(model.parameters(), lr=0.1)"
EPOCHS = {
    "given": (SGD, "opt.zero_grad()", "opt", "migrated"),
    "left out": (SGD, "opt.zero_grad()", "", "migrated"),
    "not cleared": (SGD, "pass", "", "left"),
    "may be None": (SGD, "opt.zero_grad(); own = opt if epoch else None; attack(model, X, y, own)", "", "left"),
}


@pytest.mark.parametrize("test", ["opt is not None", "not opt is None", "None is not opt"])
@pytest.mark.parametrize("name", EPOCHS)
def test_a_call_decides_whether_there_is_an_optimizer(tmp_path, test, name):
    made, cleared, given, status = EPOCHS[name]
    files = {
        "train.py": OF_AN_EPOCH.format(made=made, cleared=cleared, given=given),
        "utils.py": SEVERAL_STEPS.format(test=test),
    }
    write_tree(tmp_path, {name: text.encode() for name, text in files.items()})
    results = migrate_project([tmp_path], Options(api="torch.amp"))
    assert {result.status for result in results} == {status}, [result.findings for result in results]
