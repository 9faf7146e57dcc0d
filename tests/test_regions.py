"""What a region holds where a call takes more than its arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import Options, migrate_project, migrate_source

_SCRIPT = """\
from functools import partial
import torch
from torch.nn import functional as F


def error(out, target):
    return F.mse_loss(out, target)


def train(net, optimizer):
    for step in range(3):
        x = torch.randn(8, 4).cuda()
        {made}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


net = torch.nn.Linear(4, 4).cuda()
train(net, torch.optim.SGD(net.parameters(), lr=0.1))
"""


@pytest.mark.parametrize(
    "made",
    [
        ["out = net(x)", "loss = error(out, x)"],
        ["out = net(x)", "part = partial(error, out)", "loss = part(x)"],
        ["out = net(x)", "def part():", "    return error(out, x)", "loss = part()"],
    ],
)
def test_the_forward_is_in_a_region_whichever_way_the_loss_gets_its_output(made):
    result = migrate_source(_SCRIPT.format(made="\n        ".join(made)).encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    lines = [line.strip() for line in result.output.decode().splitlines()]
    assert lines[lines.index("out = net(x)") - 1] == 'with torch.amp.autocast("cuda"):'


_WRAPPED = """\
import torch
from torch import nn
from wrappers import Wrapper

net = nn.DataParallel(nn.Linear(4, 4)).cuda()
wrapper = Wrapper({given})
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = nn.MSELoss()
for step in range(3):
    x = torch.randn(8, 4).cuda()
    optimizer.zero_grad()
    out = {called}(x, x)
    loss = criterion(out, x)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("given", ["net", "model=net"])
@pytest.mark.parametrize("called", ["wrapper", "wrapper.forward", "wrapper.compute"])
def test_what_was_made_with_the_model_runs_it(tmp_path, given, called):
    method = {"wrapper": "__call__"}.get(called, called.rpartition(".")[2])
    wrapper = (
        f"class Wrapper:\n    def __init__(self, model):\n        self.model = model\n\n    def {method}(self, a, b):\n"
    )
    (tmp_path / "wrappers.py").write_text(f"{wrapper}        return self.model(a) + b\n")
    (tmp_path / "train.py").write_text(_WRAPPED.format(given=given, called=called))
    (train, _) = migrate_project([tmp_path], Options(api="torch.amp"))
    assert train.status == "migrated", train.findings
    assert f'autocast("cuda"):\n        out = {called}(x, x)\n        loss =' in train.output.decode()
    assert "AMP191" not in {one.code for one in train.findings}


_BESIDE = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

net = nn.Sequential(nn.Linear(4, 4){ending}).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(8, 4).cuda(), torch.randint(4, (8,)).cuda()
for step in range(3):
    optimizer.zero_grad()
    out = net(x)
    {then}
    loss = F.nll_loss(out, y)
    loss.backward()
    optimizer.step()
    print(F.nll_loss(out[:4], y[:4]).item())
"""


@pytest.mark.parametrize(
    ("ending", "then", "is_cast"),
    [
        ("", "out = out.relu()", True),
        (", nn.LogSoftmax(dim=1)", "out = out.relu()", False),
        ("", "out = F.log_softmax(out, dim=1)", False),
    ],
)
def test_an_output_is_cast_after_its_region_unless_autocast_makes_it_float32(ending, then, is_cast):
    result = migrate_source(_BESIDE.format(ending=ending, then=then).encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    assert (".float()" in result.output.decode()) == is_cast


_OUTSIDE = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

net = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(8, 4).cuda(), torch.randint(4, (8,)).cuda()


def total(values):
    return (values * values).sum().item()


def check():
    with torch.no_grad():
        scores = net(x)
        print(scores.sum().item(), scores.cpu().numpy())


for step in range(3):
    optimizer.zero_grad()
    out = net(x)
    loss = F.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
    found = torch.sigmoid(out.detach()) * 2
    print(total(found), found.cpu().numpy(), out.float().sum())
    check()
"""


def test_what_is_made_of_half_outputs_outside_of_a_region_is_cast_and_the_same_of_a_float32_forward_is_not():
    result = migrate_source(_OUTSIDE.encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    lines = [line.strip() for line in result.output.decode().splitlines()]
    assert "return (values * values).float().sum().item()" in lines
    assert "print(scores.sum().item(), scores.cpu().numpy())" in lines
    assert "print(total(found), found.float().cpu().numpy(), out.float().sum())" in lines


_EVALUATION = """\
import torch
import torch.nn as nn
from apex import amp

net, head = nn.Linear(4, 4).cuda(), nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
[net, head], optimizer = amp.initialize([net, head], optimizer, opt_level="O1")
criterion = nn.CrossEntropyLoss()
x, y = torch.randn(8, 4).cuda(), torch.randint(2, (8,)).cuda()
w = torch.randn(4, 4).cuda()
for step in range(3):
    optimizer.zero_grad()
    loss = criterion(head(net(x)), y)
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
with torch.no_grad():
    out = net(x)
    {between}
    scores = head(out)
    print(scores.argmax(1).tolist())
"""


def _regions_after_training(between: str) -> int:
    result = migrate_source(_EVALUATION.format(between=between).encode(), Options(api="torch.amp"))
    assert result.status == "migrated", result.findings
    return result.output.decode().partition("no_grad")[2].count("autocast")


@pytest.mark.parametrize("between", ["pass", "print('here')", "print(out is None)", "seen = 1", "seen = out is None"])
def test_what_runs_alike_in_an_evaluation_does_not_end_its_region(between):
    assert _regions_after_training(between if between != "pass" else "print('a', 'b')") == 1


@pytest.mark.parametrize("between", ["print(out)", "print(x @ w)", "seen = w @ x.t()", "out, seen = out.float(), 1"])
def test_what_computes_or_shows_halves_in_an_evaluation_ends_its_region(between):
    assert _regions_after_training(between) != 1


_BCE_HELPER = """\
import torch
import torch.nn as nn

net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = nn.BCELoss()


def error(out, target):
    {body}


for step in range(3):
    x, y = torch.randn(8, 4).cuda(), torch.rand(8, 1).cuda()
    optimizer.zero_grad()
    out = torch.sigmoid(net(x))
    {loss}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "body, loss, has_island",
    [
        ("return criterion(out, target)", "loss = error(out, y)", False),
        ("return criterion(out, target)", "loss = error(out, y)\n    total = loss", False),
        ("out = out * 1\n    return criterion(out, target)", "loss = error(out, y)", True),
        ("return criterion(out, target)", "loss = error(torch.sigmoid(net(x)), y)", True),
        ("return criterion(out, target)", "loss = error(out, y) + error(out, y)", True),
        ("return criterion(out, target)", "first = error(out, y)\n    loss = first + net(x).mean()", True),
    ],
)
def test_a_region_ends_before_a_helper_that_computes_a_binary_cross_entropy_and_nothing_else(body, loss, has_island):
    result = migrate_source(_BCE_HELPER.format(body=body, loss=loss).encode(), Options(api="torch.amp"))
    assert result.status == "left" or ("enabled=False" in result.output.decode()) == has_island, result.output.decode()
    assert has_island or result.status == "migrated", result.findings


_GUARDED = """\
import argparse
import torch
from apex import amp

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()
model = torch.nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
if {setup}:
    {beside}
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for _ in range(2):
    loss = model(torch.randn(2, 3).cuda()).sum()
    optimizer.zero_grad()
    if {backward}:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
    else:
        loss.backward()
    optimizer.step()
    print({shown})
"""


def _guarded(setup: str = "args.fp16", backward: str = "args.fp16", beside: str = "pass", shown: str = "1"):
    text = _GUARDED.format(setup=setup, backward=backward, beside=beside, shown=shown)
    return migrate_source(text.encode(), Options(api="torch.amp"))


def test_a_condition_that_names_its_value_is_that_of_its_value():
    result = _guarded("(on := args.fp16)", "(also := args.fp16)")
    assert result.status == "migrated", result.findings
    assert result.output.decode().count("enabled=args.fp16") == 2


@pytest.mark.parametrize(
    "setup, backward, shown",
    [
        ("(on := args.fp16)", "(also := args.fp16)", "also"),
        ("(on := args.fp16)", "(also := args.fp16)", "on"),
        ("(on := args.fp16)", "(also := args.bf16)", "1"),
        ("args.fp16", "(also := args.fp16)", "also"),
        ("(on := args.fp16)", "args.fp16", "on"),
    ],
)
def test_a_condition_that_names_what_is_read_does_not_go(setup, backward, shown):
    result = _guarded(setup, backward, "print(1)", shown)
    assert result.status == "left"
    assert [one.code for one in result.findings] == ["AMP905"]


def test_a_name_that_nothing_reads_does_not_make_another_condition_of_a_guard():
    result = _guarded("args.fp16", "True", "seen = 1")
    assert result.output.decode().count("enabled=args.fp16") == 2


def test_what_a_guard_sets_for_the_program_is_kept():
    result = _guarded("args.fp16", "args.fp16", "size = 1", "size")
    assert "if args.fp16:\n    size = 1\n" in result.output.decode()


_TWO_LOOPS = """\
import torch
from torch.nn import functional as F


def plain(net, x):
    return F.mse_loss(net(x), x)


def attacked(net, x):
    x.requires_grad_()
    loss = F.mse_loss(net(x), x)
    {inside}
    return F.mse_loss(net(x + 0.01), x)


def train(net, optimizer, criterion):
    for step in range(3):
        loss = criterion(net, torch.randn(8, 4).cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def again(net, optimizer):
    for step in range(3):
        x = torch.randn(8, 4).cuda()
        loss = F.mse_loss(net(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
train(net, optimizer, plain if net.training else attacked)
again(net, optimizer)
"""


@pytest.mark.parametrize(("inside", "left"), [("loss.backward(retain_graph=True)", True), ("loss = loss * 2", False)])
def test_no_loss_of_a_unit_is_scaled_without_autocast(inside, left):
    """The second loop could have its region; in the first one, nothing could."""
    result = migrate_source(_TWO_LOOPS.format(inside=inside).encode(), Options(api="torch.amp"))
    assert (result.status == "left") == left, result
    assert not left or "AMP968" in {finding.code for finding in result.findings}


_EVALUATION_FIRST = """\
import sys
import torch
from torch.nn import functional as F


def main(args, loader):
    net = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    if args.test:
        with torch.no_grad():
            for x, y in loader:
                if args.two:
                    out, kept = net(x.cuda()), x
                else:
                    out = net(x.cuda())
        {ends}
    for x, y in loader:
        if args.two:
            out, kept = net(x.cuda()), x
            loss = F.mse_loss(out, kept.cuda())
        else:
            out = net(x.cuda())
            loss = F.mse_loss(out, y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("ends", ["sys.exit()", "return", "exit(0)", "raise SystemExit", "print(out.mean())"])
def test_what_ends_the_program_or_is_set_anew_is_not_behind_the_loss(ends):
    result = migrate_source(_EVALUATION_FIRST.format(ends=ends).encode(), Options(api="torch.amp"))
    before, _, training = result.output.decode().partition("    for x, y in loader:\n        with torch.amp")
    assert training and "autocast" not in before, result


_OVER_TURNS = """\
import torch
from torch import nn
from elsewhere import measure

model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = None
{loop}
    optimizer.zero_grad()
    x, y = torch.randn(4, 8).cuda(), torch.randint(4, (4,)).cuda()
    if count % 8:
        one = {made}
        {added}
    else:
        {left}
        loss.backward()
        optimizer.step()
"""
_FORWARD = "nn.functional.cross_entropy(model(x), y)"


def _over_turns(made=_FORWARD, added="loss = loss + one", left="loss = loss / 8", loop="for count in range(1, 33):"):
    code = _OVER_TURNS.format(made=made, added=added, left=left, loop=loop)
    return migrate_source(code.encode(), Options(api="torch.amp"))


@pytest.mark.parametrize(
    ("added", "left"),
    [
        ("loss = loss + one", "loss = loss / 8"),
        ("loss += one", "loss /= 8"),
        ("loss = one if loss is None else loss + one", "pass"),
    ],
)
@pytest.mark.parametrize("loop", ["for count in range(1, 33):", "count = 0\nwhile count < 33:\n    count += 1"])
def test_a_loss_that_is_summed_over_turns_of_the_loop(added, left, loop):
    result = _over_turns(added=added, left=left, loop=loop)
    assert result.status == "migrated", result.findings
    assert f'        with torch.amp.autocast("cuda"):\n            one = {_FORWARD}' in result.output.decode()


@pytest.mark.parametrize("made", ["measure(x, y)", "x.mean()"])
def test_a_loss_of_earlier_turns_that_no_forward_makes(made):
    assert [one.code for one in _over_turns(made).findings if one.code > "AMP900"] == ["AMP908"]


TASKS = """\
import torch
import tqdm
import yaml


class Task:
    def __init__(self, config):
        self.model = torch.nn.Linear(4, 4).cuda()

    def get_model(self):
        return self.model

    def forward(self, images):
        return self.model(images)

    def loss(self, outputs):
        return outputs.pow(2).mean()


def get_task(config):
    return globals().get(config.task.name)(config)


def train(task, loader, optimizer):
    {around}
    for data in bar:
        images = data.cuda()
        outputs = task.forward(images=images)
        loss = task.loss(outputs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    config = yaml.load(open("config.yaml"))
    task = get_task(config)
    loaders = {{name: make_loader(config, name) for name in ("train", "dev")}}
    optimizer = torch.optim.SGD(task.get_model().parameters(), lr=0.1)
    train(task, loaders["train"], optimizer)


main()
"""


@pytest.mark.parametrize("around", ["bar = tqdm.tqdm(loader, total=8)", "bar = track(loader)", "bar = iter(loader)"])
def test_a_forward_by_its_name_is_nearer_than_what_reads_the_settings(around):
    output = migrate_source(TASKS.format(around=around).encode(), Options(api="torch.amp")).output.decode()
    assert (
        f'\n    {around}\n    for data in bar:\n        images = data.cuda()\n        with torch.amp.autocast("cuda"):\n'
        in output
    )
    assert output.count("autocast") == 1


TWO_MEANINGS = """\
import torch
{first}

net = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = {criterion}
for _ in range(3):
    x = torch.randn(8, 4).cuda()
    optimizer.zero_grad()
    loss = criterion(net(x), x[:, 0].long() * 0)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("first", "criterion"),
    [
        ("import loss", "loss.Loss()"),
        ("import loss", "torch.nn.CrossEntropyLoss()"),
        ("import loss\nloss.Loss().cuda()", "loss.Loss()"),
        ("from torch.nn import functional as loss", "loss.cross_entropy"),
    ],
)
def test_a_name_that_means_a_module_first_is_a_value_later(tmp_path: Path, first: str, criterion: str) -> None:
    (tmp_path / "main.py").write_text(TWO_MEANINGS.format(first=first, criterion=criterion))
    (tmp_path / "loss.py").write_text("import torch\n\n\nclass Loss(torch.nn.CrossEntropyLoss):\n    pass\n")
    (result,) = (one for one in migrate_project([tmp_path], Options(api="torch.amp")) if one.path.endswith("main.py"))
    assert b'with torch.amp.autocast("cuda"):\n        loss = criterion(net(x)' in result.output
