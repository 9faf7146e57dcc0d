"""Gradients that a step has used and the next backward adds to are seen wherever the step and the loop stand."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

HEAD = """\
import torch
import torch.nn as nn
from apex import amp

model = nn.Linear(6, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer = amp.initialize(model, optimizer, opt_level='O1')


"""
STEP = """\
batch = torch.randn(16, 6).cuda()
CLEAR
loss = nn.functional.cross_entropy(model(batch), batch[:, :2].argmax(1))
with amp.scale_loss(loss, optimizer) as scaled_loss:
    scaled_loss.backward()
optimizer.step()
"""
ROUNDS = "for epoch in range(2):\n    FIRST\n    for step in range(4):\n        EACH\n        CALL\n"


def indented(text, by):
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


FORMS = {
    "in place": ("", indented(STEP, 8)),
    "a function": ("def part():\n" + indented(STEP, 4), "        part()\n"),
    "a static method": ("class Part:\n    @staticmethod\n    def go():\n" + indented(STEP, 8), "        Part.go()\n"),
    "a function of a function": (
        "def part():\n" + indented(STEP, 4) + "\n\ndef outer():\n    part()\n    print('done')\n",
        "        outer()\n",
    ),
}


def codes(form, **places):
    definitions, call = FORMS[form]
    source = HEAD + definitions + "\n\n" + ROUNDS.replace("        CALL\n", call)
    for name in ("CLEAR", "FIRST", "EACH"):
        source = source.replace(name, places.get(name.lower(), "pass"))
    return [one.code for one in migrate_source(source.encode(), Options(api="torch.amp")).findings]


@pytest.mark.parametrize("form", FORMS)
def test_cleared_once_an_epoch_is_refused(form):
    assert "AMP904" in codes(form, first="optimizer.zero_grad()")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", ["clear", "each"])
def test_cleared_in_each_round_is_migrated(form, place):
    assert "AMP904" not in codes(form, **{place: "optimizer.zero_grad()"})
