"""Gradients that are used, and that no step takes: they are unscaled like others, and the scaler is updated."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source
from tests.drawn.run import run

HEAD = """\
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

torch.manual_seed(0)
first, second = nn.Linear(8, 16).cuda(), nn.Linear(16, 3).cuda()
both = nn.Sequential(first, nn.ReLU(), second)
{made}
for i in range(6):
    x, y = torch.randn(32, 8).cuda(), torch.randint(0, 3, (32,)).cuda()
"""
ONE = HEAD.format(made="one = torch.optim.SGD(both.parameters(), lr=0.1)")
PAIR = "{0}one = torch.optim.{1}(first.parameters(), lr=1.0)\n{0}two = torch.optim.{1}(second.parameters(), lr=1.0)"
TWO = HEAD.format(made=PAIR.format("", "SGD"))
CHOSEN = HEAD.format(
    made="import sys\nif len(sys.argv) < 2:\n" + PAIR.format("    ", "SGD") + "\nelse:\n" + PAIR.format("    ", "Adam")
)
BACKWARD = "loss = nn.functional.cross_entropy(both(x), y)\nprint('loss', loss.item())\nloss.backward()\n"
LARGEST = "print(max(p.grad.abs().max().item() for p in both.parameters()))\n"
SMALLEST = "print(min(p.grad.abs().max().item() for p in both.parameters()))\n"
CLIP = "clip_grad_norm_(both.parameters(), 0.1)\n"
LEFT = "one.zero_grad()\n" + BACKWARD + "if i % 2:\n"
BOTH = "one.zero_grad()\ntwo.zero_grad()\n" + BACKWARD
PROGRAMS = {
    "printed before it is left": (ONE, LEFT + f"    {LARGEST}    continue\none.step()\n"),
    "printed before a clip": (ONE, LEFT + f"    {LARGEST}    continue\n{CLIP}one.step()\n"),
    "printed twice": (ONE, LEFT + f"    {LARGEST}    {SMALLEST}    continue\none.step()\n"),
    "clipped before it is left": (ONE, LEFT.replace("if", CLIP + "if") + f"    {LARGEST}    continue\none.step()\n"),
    "printed in an arm": (ONE, LEFT + f"    {LARGEST}else:\n    one.step()\n"),
    "stepped in an arm": (ONE, LEFT + f"    one.step()\nelse:\n    {LARGEST}"),
    "a clip over two": (TWO, BOTH + CLIP + "one.step()\n" + BOTH + CLIP + "two.step()\n"),
    "a clip over two, then both": (TWO, BOTH + CLIP + "one.step()\n" + BOTH + CLIP + "one.step()\ntwo.step()\n"),
    "printed, then clipped": (TWO, BOTH + LARGEST + CLIP + "two.step()\n" + BOTH + CLIP + "one.step()\n"),
    "printed behind the step of another": (TWO, BOTH + f"two.step()\n{LARGEST}" + BOTH + "one.step()\n"),
    "printed behind one that may step": (TWO, BOTH + f"if i % 2:\n    two.step()\n{LARGEST}" + BOTH + "one.step()\n"),
    "printed behind both": (TWO, BOTH + "one.step()\n" + BOTH + f"two.step()\n{LARGEST}"),
    "printed in some rounds": (TWO, BOTH + "one.step()\n" + BOTH + f"two.step()\nif i % 2:\n    {LARGEST}"),
    "optimizers of two arms": (CHOSEN, BOTH + CLIP + "if i > 4:\n    one.step()\ntwo.step()\n"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_unscaled_and_trains_on(name):
    head, body = PROGRAMS[name]
    source = head + "".join(f"    {line}\n" for line in body.splitlines())
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    before, after = run(source), run(result.output.decode())
    assert not before.error and not after.error, (before, after)
    assert after.losses == pytest.approx(before.losses, rel=0.01)


def test_what_a_step_has_left_in_them_is_of_another_scale():
    body = BOTH + "two.step()\none.zero_grad()\n" + BACKWARD + f"one.step()\n{LARGEST}"
    source = TWO + "".join(f"    {line}\n" for line in body.splitlines())
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert [one.code for one in result.findings] == ["AMP904"]


ROUNDS = HEAD.format(made="one = torch.optim.SGD(both.parameters(), lr=0.1)").replace(
    "torch.randint(0, 3, (32,)).cuda()", "{labels}.long().cuda()"
)


@pytest.mark.parametrize("labels", ["torch.zeros(32)", "x.new_zeros(32)"])
def test_what_makes_zeros_clears_no_gradients(labels):
    """They are cleared in every second round only, so that scaled gradients would be added to unscaled ones."""
    body = "if i % 2:\n    one.zero_grad()\n" + BACKWARD + "one.step()\n"
    source = ROUNDS.format(labels=labels) + "".join(f"    {line}\n" for line in body.splitlines())
    result = migrate_source(source.encode(), Options(api="torch.amp"))
    assert (result.status, [one.code for one in result.findings]) == ("left", ["AMP904"])
