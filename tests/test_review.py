"""Mistakes in native AMP that was there before us, in the shapes that scripts and trainers have; and no false alarm."""

from __future__ import annotations

import textwrap

import pytest

from amp_migrate.facts import Facts
from amp_migrate.files.parse import parse
from amp_migrate.review import review
from amp_migrate.rules.catalogue import RULES


def found(source: str) -> list[tuple[int, str]]:
    facts = Facts.of_module(parse(textwrap.dedent(source).lstrip().encode()))
    return [(one.line, one.code) for one in review(facts)]


_TRAINER = """
import torch
from torch.cuda.amp import GradScaler, autocast

class Trainer:
    def __init__(self, model, args):
        self.model = model
        self.args = args
        self.use_amp = False
        self.optimizer = torch.optim.Adam(model.parameters())
        if args.fp16:
            self.use_amp = True
            self.scaler = GradScaler()

    def train(self, loader):
        for i, batch in enumerate(loader):
            self.training_step(batch)
            if (i + 1) % self.args.accumulate == 0:
                if self.args.max_norm > 0 and not self.args.deepspeed:
                    {unscale}
                    torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_norm)
                if self.args.deepspeed:
                    pass
                elif self.use_amp:
                    self.scaler.step(self.optimizer)
                    {update}
                else:
                    self.optimizer.step()
                self.model.zero_grad()

    def training_step(self, batch):
        if self.use_amp:
            with autocast():
                loss = self.model(batch)
        else:
            loss = self.model(batch)
        if self.use_amp:
            {backward}
        else:
            loss.backward()
"""
_RIGHT = {
    "unscale": "if self.use_amp: self.scaler.unscale_(self.optimizer)",
    "update": "self.scaler.update()",
    "backward": "self.scaler.scale(loss).backward()",
}


def trainer(**parts: str) -> list[tuple[int, str]]:
    return found(_TRAINER.format(**{**_RIGHT, **parts}))


def test_a_trainer_with_both_arms_is_right():
    assert trainer() == []


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"unscale": "pass"}, [(20, "AMP401")]),
        ({"update": "pass"}, [(37, "AMP409")]),
        ({"backward": "loss.backward()"}, [(19, "AMP406"), (24, "AMP406")]),
        ({"update": "self.scaler.update()\n                    self.scaler.update()"}, [(26, "AMP407")]),
        ({"backward": "with autocast(): self.scaler.scale(self.model(batch)).backward()"}, [(37, "AMP410")]),
    ],
)
def test_mistakes_in_a_trainer(parts, expected):
    assert trainer(**parts) == expected


_ENGINE = """
import torch

def train_one_epoch(model, criterion, loader, optimizer, scaler, accumulate, max_norm=None):
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda"):
            loss = criterion(model(x), y) / accumulate
        if scaler is None:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            continue
        scaler.scale(loss).backward()
        {step}
"""


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("scaler.step(optimizer); scaler.update()", []),
        ("scaler.step(optimizer)", [(12, "AMP409")]),
        (
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 1); scaler.step(optimizer); scaler.update()",
            [(13, "AMP401")],
        ),
        (
            "scaler.unscale_(optimizer)\n"
            "        if i % accumulate == 0:\n            scaler.step(optimizer)\n            scaler.update()",
            [(12, "AMP408")],
        ),
        ("if i % accumulate == 0: scaler.step(optimizer)\n        scaler.update()", [(14, "AMP407")]),
        ("scaler.step(optimizer); optimizer.step(); scaler.update()", [(13, "AMP405")]),
        ("if i % 2: scaler.step(optimizer); scaler.update()\n        else: optimizer.step()", [(14, "AMP405")]),
    ],
)
def test_a_scaler_that_is_a_parameter(step, expected):
    assert found(_ENGINE.format(step=step)) == expected


def test_an_optimizer_that_never_steps_by_the_scaler():
    source = """
    import torch
    model = torch.nn.Linear(2, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scaler = torch.cuda.amp.GradScaler()
    for x in loader:
        with torch.cuda.amp.autocast():
            loss = model(x).mean()
        scaler.scale(loss).backward()
        optimizer.step()
        scheduler.step()
    """
    assert found(source) == [(10, "AMP405")]


_EPOCHS = """
import torch
from torch.cuda.amp import GradScaler, autocast

def train(model, optimizer, loader{parameter}):
    {inner}
    for x in loader:
        with autocast():
            loss = model(x).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

def main(model, loader):
    {before}
    {outer}
    for epoch in range(9):
        {loop}
        train(model, optimizer, loader{argument})
        torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict(){saved}}}, "last.pt")
"""
_SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
_AS_IT_SHOULD_BE = {
    "parameter": ", scaler", "inner": "pass", "before": _SGD, "outer": "scaler = GradScaler()", "loop": "pass",
    "argument": ", scaler", "saved": ', "scaler": scaler.state_dict()',
}  # fmt: skip
_AT_TIMES = f"scaler = GradScaler()\n        if epoch == 3: {_SGD}"
_EVERY_TIME = f"scaler = GradScaler()\n        {_SGD}"
_LOCAL = {"parameter": "", "inner": "scaler = GradScaler()", "outer": "pass", "argument": "", "saved": ""}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, []),
        ({"outer": "pass", "loop": "scaler = GradScaler()"}, [(18, "AMP412")]),
        (_LOCAL, [(5, "AMP412")]),
        ({**_LOCAL, "before": "pass", "loop": _SGD}, []),
        ({"outer": "pass", "loop": _AT_TIMES}, [(18, "AMP412")]),
        ({"outer": "pass", "loop": _EVERY_TIME}, []),
        ({"outer": "scaler = None", "loop": "if scaler is None: scaler = GradScaler()"}, []),
        ({"saved": ""}, [(20, "AMP413")]),
        ({"saved": ', "scaler": scaler'}, []),
        ({"saved": "", "loop": "save_for_resuming(model, optimizer, scaler)"}, []),
        ({"saved": "", "outer": "scaler = GradScaler(enabled=False)"}, []),
    ],
)
def test_the_life_of_a_scaler(parts, expected):
    assert found(_EPOCHS.format(**{**_AS_IT_SHOULD_BE, **parts})) == expected


_LOOP = """
import torch
model = torch.nn.Linear(2, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler()
for i, x in enumerate(loader):
    with torch.cuda.amp.autocast():
        loss = model(x).mean()
    {step}
"""


@pytest.mark.parametrize(
    "step",
    [
        # another file may step, unscale and update
        "scaler.scale(loss).backward()\n    finish(optimizer, scaler)",
        "scaler.scale(loss).backward()\n    scaler.unscale_(optimizer)\n    xm.optimizer_step(optimizer)",
        "scaler.scale(loss).backward()\n    callbacks.after_backward(scaler=scaler)\n"
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1)\n    scaler.step(optimizer)\n    scaler.update()",
        # unscaled by hand
        "scaler.scale(loss).backward()\n    inv_scale = 1.0 / scaler.get_scale()\n"
        "    for p in model.parameters(): p.grad.mul_(inv_scale)\n"
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1)\n    optimizer.step()",
        # an engine scales, or takes the scaled loss
        "engine.backward(scaler.scale(loss))\n    scaler.step(optimizer)\n    scaler.update()",
        "engine.backward(loss)",
    ],
)
def test_what_is_not_in_sight_is_no_mistake(step):
    assert found(_LOOP.format(step=step)) == []


@pytest.mark.parametrize(
    "part",
    [
        "def unscale_gradients(self, optimizer):\n        self.scaler.unscale_(optimizer)",
        "def step(self, optimizer):\n        self.scaler.step(optimizer)\n        self.scaler.update()",
        "def update(self):\n        self.scaler.update()",
        "def backward(self, loss):\n        self.scaler.scale(loss).backward()",
        "def step(self, optimizer):\n        self.scaler.step(optimizer)",
    ],
)
def test_a_part_of_a_training_step_is_no_mistake(part):
    source = f"import torch\nclass Precision:\n    def __init__(self):\n        self.scaler = torch.cuda.amp.GradScaler()\n    {part}\n"
    assert [(one.line, one.code) for one in review(Facts.of_module(parse(source.encode())))] == []


def test_two_scalers_for_two_optimizers():
    source = """
    import torch
    def train(G, D, loader):
        opt_g = torch.optim.Adam(G.parameters())
        opt_d = torch.optim.Adam(D.parameters())
        scaler_g = torch.cuda.amp.GradScaler()
        scaler_d = torch.cuda.amp.GradScaler()
        for x in loader:
            with torch.cuda.amp.autocast():
                loss_d = D(x).mean()
                loss_g = G(x).mean()
            scaler_d.scale(loss_d).backward()
            scaler_g.scale(loss_g).backward()
            scaler_d.step(opt_d)
            scaler_g.step(opt_g)
            scaler_d.update()
            scaler_g.update()
    """
    assert found(source) == []


def test_a_stand_in_for_the_scaler():
    source = """
    import torch
    class Nothing:
        def scale(self, loss): return loss
        def step(self, optimizer): optimizer.step()
        def update(self): pass
    def train(model, loader, amp):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = Nothing()
        if amp:
            scaler = torch.cuda.amp.GradScaler()
        for x in loader:
            scaler.scale(model(x).mean()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
            scaler.step(optimizer)
            scaler.update()
    """
    assert found(source) == []


def test_every_code_has_a_rule():
    reviewed = {code for code in RULES if "AMP400" < code < "AMP420"}
    assert reviewed == {f"AMP4{number:02}" for number in range(1, 17)}
