"""Training with `FP16_Optimizer`, in the ways in which projects spell it: the same meaning is read in all of them."""

from __future__ import annotations

import pytest

from amp_migrate import Options, Result, migrate_project, migrate_source
from tests.unit_fixture import write_tree

SCRIPT = """\
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--scale", type=float, default=0)
args = parser.parse_args()


class Trainer:
    def __init__(self):
        self.model = nn.Linear(10, 2).cuda()
        if args.fp16:
            from apex.optimizers import FP16_Optimizer, FusedAdam
            self.model.half()
            {wrapped}
        else:
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        if args.fp16:
            self.optimizer.backward(loss)
        else:
            loss.backward()
        self.optimizer.step()


trainer = Trainer()
for _ in range(3):
    trainer.step(torch.randn(8, 10).cuda(), torch.randint(0, 2, (8,)).cuda())
"""
FUSED = "FusedAdam(self.model.parameters(), lr=1e-3)"


def migrated(source: str) -> Result:
    return migrate_source(source.encode(), Options(api="torch.amp"))


def line_with(result: Result, text: str) -> str:
    assert result.output is not None, result.findings
    return next(line.strip() for line in result.output.decode().splitlines() if text in line)


def codes(result: Result) -> list[str]:
    return sorted(finding.code for finding in result.findings)


@pytest.mark.parametrize(
    "wrapped",
    [
        f"self.optimizer = FP16_Optimizer({FUSED})",
        f"self.optimizer = {FUSED}; self.optimizer = FP16_Optimizer(self.optimizer)",
        f"optimizer = {FUSED}; self.optimizer = FP16_Optimizer(optimizer)",
        f"inner = optimizer = {FUSED}; self.optimizer = FP16_Optimizer(optimizer)",
        f"self.inner = {FUSED}; self.optimizer = FP16_Optimizer(self.inner)",
    ],
)
def test_what_is_wrapped_goes_with_its_arm(wrapped):
    """It is made there only, under whichever name; the wrapper is bound where the plain arm binds its optimizer."""
    result = migrated(SCRIPT.format(wrapped=wrapped))
    assert line_with(result, "Adam(") == "self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)"
    assert line_with(result, "GradScaler(").endswith('GradScaler("cuda", enabled=False)')
    assert codes(result) == ["AMP160", "AMP161"]


@pytest.mark.parametrize(
    ("made", "code"),
    [
        ("scale = args.scale", None),
        ("self.scale = args.scale", None),
        ("scale = float(open('scale').read())", "AMP930"),
        ("scale = 1.0 if args.scale == 0 else args.scale", None),
        ("scale = 1.0\n            if args.scale != 0:\n                scale = args.scale", "AMP930"),
    ],
)
def test_a_setting_made_in_the_arm_is_there_for_the_scaler(made, code):
    """What only looks is moved with the wrapper. What does more, or stands in a block of its own, is a refusal."""
    name = "self.scale" if made.startswith("self") else "scale"
    wrapped = f"{made}\n            optimizer = {FUSED}\n            self.optimizer = FP16_Optimizer(optimizer, {name})"
    result = migrated(SCRIPT.format(wrapped=wrapped))
    assert (code in codes(result)) if code else (f"{name} = " in line_with(result, "args.scale"))


LOOP = """\
import argparse

import torch
from apex.contrib.optimizers import FP16_Optimizer, FusedAdam
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()


class Average:
    def update(self, model):
        self.weights = [p.detach().clone() for p in model.parameters()]


average = Average()
model = nn.Linear(10, 2).cuda()
if args.fp16:
    model.half()
{made}
for step in range(10):
    x, y = torch.randn(8, 10).cuda(), torch.randint(0, 2, (8,)).cuda()
    loss = nn.functional.cross_entropy(model(x), y)
    if args.fp16:
        {before}
        optimizer.backward(loss)
        {after}
    else:
        loss.backward()
        {plain}
    optimizer.step()
    model.zero_grad()
"""
OTHER = """\
if args.fp16:
    optimizer = FP16_Optimizer(FusedAdam(model.parameters(), lr=1e-3), dynamic_loss_scale=True)
else:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)"""
SAME = """\
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
if args.fp16:
    optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)"""
RATE = "1e-3 * (1 - step / 10)"


@pytest.mark.parametrize(
    "rate",
    [
        f"lr = {RATE}\n        for group in optimizer.param_groups:\n            group['lr'] = lr",
        f'for group in optimizer.param_groups: group["lr"] = {RATE}',
        f'optimizer.param_groups[0]["lr"] = {RATE}',
        f"for group in optimizer.param_groups:\n            print(step)\n            group['lr'] = {RATE}",
    ],
)
def test_a_rate_that_one_arm_sets_is_told(rate):
    """Before the backward or after it: it goes with the other optimizer, or there is none without mixed precision."""
    for before, after in ((rate, "pass"), ("pass", rate)):
        told = {
            made: migrated(LOOP.format(made=made, before=before, after=after, plain="pass")) for made in (OTHER, SAME)
        }
        assert codes(told[OTHER]) == ["AMP160", "AMP161", "AMP162"]
        assert codes(told[SAME]) == ["AMP160", "AMP163"]
    both = migrated(LOOP.format(made=SAME, before="pass", after=rate, plain=rate))
    assert codes(both) == ["AMP160"]


@pytest.mark.parametrize("plain", ["pass", "average.update(model)"])
def test_a_call_that_one_arm_has_alone_is_told(plain):
    result = migrated(LOOP.format(made=SAME, before="print(step)", after="average.update(model)", plain=plain))
    told = [finding.message for finding in result.findings if finding.code == "AMP163"]
    assert told == (["average.update(model) was done in mixed precision only, and goes"] if plain == "pass" else [])
    assert ("average.update(model)" in result.output.decode()) == (plain != "pass")


MASTERS = """\
import argparse

import torch
from apex.fp16_utils import {imported}
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
model = nn.Linear(10, 2).cuda()
{made}
if args.resume:
    optimizer.load_state_dict(torch.load("state.pth")["optimizer"])
for step in range(10):
    x, y = torch.randn(8, 10).cuda(), torch.randint(0, 2, (8,)).cuda()
    loss = nn.functional.cross_entropy(model(x), y)
    model.zero_grad()
    {step}
    optimizer.step()
    {after}
torch.save({{"optimizer": optimizer.state_dict()}}, "state.pth")
"""
WRAPPED = (
    "FP16_Optimizer",
    "model.half()\noptimizer = FP16_Optimizer(torch.optim.SGD(model.parameters(), lr=0.1), static_loss_scale=128.0)",
    "optimizer.backward(loss)",
    "pass",
)
PREPARED = """\
model.half()
model_params, master_params = prep_param_lists(model)
optimizer = torch.optim.SGD(master_params, lr=0.1)"""
BY_HAND = (
    "prep_param_lists, model_grads_to_master_grads, master_params_to_model_params",
    PREPARED,
    """(loss * 128.0).backward()
    model_grads_to_master_grads(model_params, master_params)
    for param in master_params:
        param.grad.data.mul_(1.0 / 128.0)""",
    "master_params_to_model_params(model_params, master_params)",
)


@pytest.mark.parametrize(("parts", "told"), [(WRAPPED, ["AMP165"]), (BY_HAND, [])])
def test_the_state_of_an_optimizer_of_masters_is_its_own(parts, told):
    """The wrapper saves more than that of its optimizer; who keeps masters by hand saves that alone."""
    result = migrated(MASTERS.format(**dict(zip(("imported", "made", "step", "after"), parts, strict=True))))
    assert line_with(result, "GradScaler(") == 'scaler = torch.amp.GradScaler("cuda", init_scale=128.0)'
    assert codes(result) == ["AMP160", *told]


@pytest.mark.parametrize(
    ("before", "backward", "plain"),
    [
        ("pass", "held = optimizer; held.backward(loss)", "loss.backward()"),
        (
            "pass",
            "held = optimizer\n        first = held; first.backward(loss)",
            "named = loss\n        named.backward()",
        ),
        ("held = optimizer", "held.backward(loss)", "loss.backward()"),
        ("held = optimizer", "first = held; first.backward(loss)", "loss.backward()"),
    ],
)
def test_an_optimizer_under_a_name_of_its_arm_is_scaled_under_one_that_stays(before, backward, plain):
    script = LOOP.format(made=SAME, before="pass", after="pass", plain="pass")
    script = script.replace("    loss = ", f"    {before}\n    loss = ").replace("optimizer.backward(loss)", backward)
    result = migrated(script.replace("loss.backward()\n        pass", plain))
    assert line_with(result, ".backward()").startswith("scaler.scale(")
    assert line_with(result, "scaler.step(") == "scaler.step(optimizer)"
    assert codes(result) == ["AMP160"]


FUNCTIONS = """\
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()


def build(model):
    if args.fp16:
        {made}
        model.half()
        optimizer = {wrapper}(FusedAdam(model.parameters()), dynamic_loss_scale=True)
    else:
        optimizer = torch.optim.Adam(model.parameters())
    return optimizer


def train(model, optimizer, x):
    loss = model(x).float().sum()
    optimizer.zero_grad()
    if args.fp16:
        optimizer.backward(loss)
    else:
        loss.backward()
    optimizer.step()


def main():
    model = nn.Linear(3, 3).cuda()
    train(model, build(model), torch.randn(2, 3).cuda())


def tune(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).float().sum()
    if args.fp16:
        optimizer.backward(loss)
    else:
        loss.backward()
    optimizer.step()


def other(model, optimizer):
    tune(model, optimizer, torch.randn(2, 3).cuda())
"""


@pytest.mark.parametrize(
    ("made", "wrapper"),
    [
        ("from apex.optimizers import FP16_Optimizer, FusedAdam", "FP16_Optimizer"),
        ("from apex.optimizers import FP16_Optimizer as Wrapper, FusedAdam", "Wrapper"),
    ],
)
def test_a_refusal_names_the_class_and_no_mark_of_the_plain_program(made, wrapper):
    result = migrated(FUNCTIONS.format(made=made, wrapper=wrapper))
    told = [finding.message for finding in result.findings if finding.code == "AMP914"]
    assert told == ["no known function leads both to FP16_Optimizer (in build) and to train"]


@pytest.mark.parametrize("dynamic", ["seen = 1", "seen = [1, args.scale]"])
def test_what_is_only_set_beside_a_wrapper_is_needed_by_none(dynamic):
    wrapped = f"""seen = []
            optimizer = {FUSED}
            if args.scale == 0:
                self.optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
                {dynamic}
            else:
                self.optimizer = FP16_Optimizer(optimizer, static_loss_scale=args.scale)"""
    assert codes(migrated(SCRIPT.format(wrapped=wrapped))) == ["AMP160", "AMP160", "AMP161"]


EMPTY_FIRST = "if not args.fp16:\n    pass\nelse:\n    "


@pytest.mark.parametrize("test", ["if args.fp16:\n    ", "if args.fp16:\n    pass\n    ", EMPTY_FIRST])
def test_an_arm_in_which_nothing_is_done_is_none(test):
    """Around the cast that says when an optimizer is in mixed precision, and around a learning rate."""
    always = "optimizer = FP16_Optimizer(torch.optim.Adam(model.parameters()), dynamic_loss_scale=True)"
    script = LOOP.format(made=always, before="pass", after="pass", plain="pass")
    script = script.replace("if args.fp16:\n    model", f"{test}model")
    head, tail = script.split("    if args.fp16:\n        pass\n")
    script = f"{head}    optimizer.backward(loss)\n{tail[tail.index('    optimizer.step') :]}"
    assert line_with(migrated(script), "GradScaler(").endswith("enabled=args.fp16)")
    script = LOOP.format(made=OTHER, before="pass", after="pass", plain="pass")
    rate = f"{test}optimizer.param_groups[0]['lr'] = {RATE}".replace("\n", "\n    ")
    result = migrated(script.replace("    optimizer.step()", f"    {rate}\n    optimizer.step()"))
    assert "AMP162" in codes(result)
    assert b"param_groups" not in result.output


@pytest.mark.parametrize(
    "asked",
    [
        "isinstance(one, (torch.cuda.HalfTensor, torch.cuda.FloatTensor))",
        "one.dtype in (torch.half, torch.float)",
        "one.dtype in {torch.half: 1, torch.float: 2}",
        "one.dtype == torch.half",
    ],
)
def test_a_type_that_is_asked_for_beside_others_stays(asked):
    line = f"print([{asked} for one in trainer.model.parameters()])"
    source = SCRIPT.format(wrapped=f"self.optimizer = FP16_Optimizer({FUSED})") + f"{line}\n"
    assert line_with(migrated(source), "print([") == line


HELPER = """\
import torch


def get_optimizer(model, float16, lr):
    if float16:
        from apex.contrib.optimizers import FP16_Optimizer, FusedAdam

        optimizer = FusedAdam(model.parameters(), lr=lr)
        optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    return optimizer
"""
OF_HELPER = """\
import argparse

import torch
from torch import nn

from optimization import get_optimizer


def main(loader):
    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--do-train", action="store_true")
    args = parser.parse_args()
    model = nn.Linear(4, 2).cuda()
    if args.fp16:
        model.half()
    if args.do_train:
        print("training")
    if args.do_train:
        optimizer = get_optimizer(model, float16=args.fp16, lr=0.1)
        for step, x in enumerate(loader):
            loss = model(x).float().pow(2).mean()
            if args.fp16:
                optimizer.backward(loss)
                for group in optimizer.param_groups:
                    group["lr"] = 0.1 / (step + 1)
            else:
                loss.backward()
            optimizer.step()
            model.zero_grad()


main([])
"""


def test_scripts_whose_options_for_a_shared_optimizer_have_other_names(tmp_path):
    """The proof looks at each script with its own half precision off, and with the training of the others as it is."""
    files = {"optimization.py": HELPER, "one.py": OF_HELPER, "other.py": OF_HELPER.replace("fp16", "half")}
    write_tree(tmp_path, {name: text.encode() for name, text in files.items()})
    results = migrate_project([tmp_path], Options())
    assert [one.status for one in results] == ["migrated"] * 3
