"""A statement that gives a name first is read as two, and written back as it stood where neither changed."""

from __future__ import annotations

import pytest

from amp_migrate import Options, migrate_source

SCRIPT = """\
import torch
from apex import amp
from torch import nn

torch.manual_seed(1)
{model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{setup}
for _ in range(3):
    optimizer.zero_grad()
    {loss}
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""
PLAIN = {
    "model": "model = nn.Linear(4, 2)\nmodel.cuda()",
    "setup": 'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")\nmodel.train()',
    "loss": "out = model(torch.randn(8, 4).cuda())\n    loss = torch.norm(out)",
}


@pytest.mark.parametrize(
    ("part", "written"),
    [
        ("model", "(model := nn.Linear(4, 2)).cuda()"),
        ("loss", "loss = torch.norm((out := model(torch.randn(8, 4).cuda())))"),
    ],
)
def test_it_is_decided_as_the_two_statements_are(part, written):
    options = Options(api="torch.amp")
    made = migrate_source(SCRIPT.format(**{**PLAIN, part: written}).encode(), options)
    plain = migrate_source(SCRIPT.format(**PLAIN).encode(), options)
    assert made.status == plain.status == "migrated"
    lines = {*made.output.decode().splitlines()} ^ {*plain.output.decode().splitlines()}
    assert all(":=" in line or line.strip() in PLAIN[part] for line in lines), lines


def test_a_module_that_is_named_in_its_call_is_followed():
    source = SCRIPT.format(**PLAIN).replace("from apex import amp", "from apex import amp as apex_amp")
    source = source.replace("model, optimizer = amp.", "model, optimizer = (amp := apex_amp).")
    made = migrate_source(source.encode(), Options(api="torch.amp"))
    assert made.status == "migrated" and b"apex" not in made.output


def test_a_test_with_a_name_says_what_it_says_without():
    source = """\
from apex import amp


def load(state, model, optimizer):
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    if {}:
        amp.load_state_dict(state["amp"])
    with amp.scale_loss(model(state).sum(), optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""
    made = [
        migrate_source(source.format(test).encode(), Options())
        for test in ('"amp" in state', '(is_there := "amp" in state)')
    ]
    assert [one.status for one in made] == ["migrated", "migrated"]
    assert {finding.code for finding in made[0].findings} == {finding.code for finding in made[1].findings}


def test_the_note_about_apex_that_is_missing_sees_through_a_name():
    source = """\
try:
    from apex import amp
except ImportError:
    amp = None


def train(model, optimizer, x):
    is_there = amp is not None
    if is_there:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    loss = model(x).sum()
    if is_there:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
    else:
        loss.backward()
    optimizer.step()
"""
    assert [one.code for one in migrate_source(source.encode(), Options()).findings] == ["AMP122"]


def test_a_file_of_another_encoding_is_written_back_in_it():
    source = SCRIPT.format(
        **{**PLAIN, "model": "(model := nn.Linear(4, 2)).cuda()  # note\n(n := len('é')).bit_length()"}
    )
    made = migrate_source(("# -*- coding: latin-1 -*-\n" + source).encode("latin-1"), Options(api="torch.amp"))
    assert made.status == "migrated", made.findings
    assert "(n := len('é')).bit_length()" in made.output.decode("latin-1")
