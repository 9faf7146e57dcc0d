"""`amp-migrate judge`: each mistake that people make is found where it stands, and the right way to write it is not accused."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from amp_migrate.cli.judge import judge
from tests.fixture import ROOT

_BEFORE = """\
import argparse

import torch
import torch.nn as nn
from apex import amp

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true", help="use Apex")
parser.add_argument("--accumulate", type=int, default=1)
args = parser.parse_args()


def train(model, loader, criterion, optimizer):
    model.train()
    for step, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / args.accumulate
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        if (step + 1) % args.accumulate == 0:
            if args.fp16:
                nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
            else:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
if args.fp16:
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
loader = [(torch.randn(4, 8).cuda(), torch.zeros(4, dtype=torch.long).cuda())]
for epoch in range(3):
    train(model, loader, criterion, optimizer)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}
    torch.save(state, "last.pt")
"""
_AFTER = """\
import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true", help="mixed precision")
parser.add_argument("--accumulate", type=int, default=1)
args = parser.parse_args()


def train(model, loader, criterion, optimizer, scaler):
    model.train()
    for step, (x, y) in enumerate(loader):
        with torch.cuda.amp.autocast(enabled=args.fp16):
            loss = criterion(model(x), y) / args.accumulate
        scaler.scale(loss).backward()
        if (step + 1) % args.accumulate == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
scaler = torch.cuda.amp.GradScaler(enabled=args.fp16)
loader = [(torch.randn(4, 8).cuda(), torch.zeros(4, dtype=torch.long).cuda())]
for epoch in range(3):
    train(model, loader, criterion, optimizer, scaler)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": scaler.state_dict()}
    torch.save(state, "last.pt")
"""
_STEP = """\
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
"""
_SAVED = ', "amp": scaler.state_dict()}'
_MADE = "scaler = torch.cuda.amp.GradScaler(enabled=args.fp16)\n"
_REGION = """\
        with torch.cuda.amp.autocast(enabled=args.fp16):
            loss = criterion(model(x), y) / args.accumulate
"""


def judged(folder: Path, before: str, after: str, *options: str) -> Result:
    for name, source in (("before.py", before), ("after.py", after)):
        (folder / name).write_text(source)
    arguments = ["--before", str(folder / "before.py"), "--after", str(folder / "after.py"), *options]
    return CliRunner().invoke(judge, arguments)


def codes(folder: Path, before: str, after: str) -> set[str]:
    data = json.loads(judged(folder, before, after, "--output-format", "json", "--quiet").stdout)
    return {one["code"] for one in data["findings"] if one["kind"] != "note"}


def changed(*pairs: tuple[str, str]) -> str:
    source = _AFTER
    for old, new in pairs:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def test_a_right_migration_is_the_same_program(tmp_path):
    result = judged(tmp_path, _BEFORE, _AFTER)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (
        0,
        "same: proved: same program with and without mixed precision, steps, names, without Apex, float32 weights, "
        "unscaled gradients; assumed: 1 place; 1 note",
    )


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        pytest.param([("            scaler.unscale_(optimizer)\n", "")], "AMP401", id="clip before unscale_"),
        pytest.param(
            [
                ("            scaler.unscale_(optimizer)\n", ""),
                ("backward()\n", "backward()\n        scaler.unscale_(optimizer)\n"),
            ],
            "AMP408",
            id="unscale_ of each micro-batch",
        ),
        pytest.param(
            [
                ("            scaler.update()\n", ""),
                ("            optimizer.zero_grad()\n", "            optimizer.zero_grad()\n        scaler.update()\n"),
            ],
            "AMP407",
            id="update of each micro-batch",
        ),
        pytest.param([("scaler.step(optimizer)", "optimizer.step()")], "AMP405", id="bare step"),
        pytest.param(
            [("scaler.update()\n", "scaler.update()\n            optimizer.step()\n")], "AMP405", id="old step left"
        ),
        pytest.param([("            scaler.update()\n", "")], "AMP409", id="no update"),
        pytest.param(
            [
                (_MADE, ""),
                ("    model.train()\n", f"    {_MADE}    model.train()\n"),
                ("optimizer, scaler)\n    state", "optimizer)\n    state"),
                ("optimizer, scaler):", "optimizer):"),
                (_SAVED, "}"),
            ],
            "AMP412",
            id="a scaler each epoch",
        ),
        pytest.param([("(enabled=args.fp16):", "():")], "AMP421", id="autocast always on"),
        pytest.param([("GradScaler(enabled=args.fp16)", "GradScaler()")], "AMP421", id="scaler always on"),
        pytest.param([("/ args.accumulate\n", "\n")], "AMP420", id="loss not divided"),
        pytest.param([("    model.train()\n", "")], "AMP420", id="lost statement"),
        pytest.param(
            [("            nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", "")], "AMP420", id="lost clip"
        ),
        pytest.param([("parameters(), 1.0)", "parameters(), 2.0)")], "AMP420", id="arms merged wrongly"),
        pytest.param([("            optimizer.zero_grad()\n", "")], "AMP420", id="lost zero_grad"),
        pytest.param(
            [("import torch.nn as nn\n", "import torch.nn as nn\nfrom apex import amp\n")], "AMP424", id="needs Apex"
        ),
        pytest.param(
            [("criterion, optimizer, scaler)\n    state", "criterion, optimizer)\n    state")],
            "AMP423",
            id="call does not fit",
        ),
        pytest.param([(_MADE, f"{_MADE}model = torch.cuda.amp.initialize(model)\n")], "AMP427", id="made-up name"),
        pytest.param([("8, 2).cuda()", "8, 2).cuda().half()")], "AMP425", id="half weights"),
    ],
)
def test_a_mistake_is_found(tmp_path, wrong, code):
    assert code in codes(tmp_path, _BEFORE, changed(*wrong))


@pytest.mark.parametrize(
    "right",
    [
        pytest.param([('help="mixed precision"', 'help="half"')], id="other words"),
        pytest.param(
            [("scaler.update()\n", "scaler.update()\n            print(scaler.get_scale())\n")], id="prints more"
        ),
        pytest.param(
            [
                ("import torch.nn as nn\n", "import torch.nn as nn\nfrom torch.cuda.amp import autocast\n"),
                ("torch.cuda.amp.autocast(", "autocast("),
            ],
            id="imported",
        ),
        pytest.param(
            [(_REGION, _REGION.replace("enabled=args.fp16", "enabled=scaler.is_enabled()"))], id="the scaler is asked"
        ),
    ],
)
def test_another_way_to_write_it_is_not_accused(tmp_path, right):
    assert codes(tmp_path, _BEFORE, changed(*right)) <= {"AMP430"}


_SAID = """
        text = 'step '{more}
        if step:
            text = ' ' * len(text)
        print(text, step)
        {read}
"""


@pytest.mark.parametrize(
    ("read", "expected"),
    [("", set()), ("model.name = text", {"AMP420"})],
)
def test_words_that_are_put_into_a_variable_first(tmp_path, read, expected):
    loop = "    model.train()\n    for step, (x, y) in enumerate(loader):"
    before, after = (_SAID.format(more=more, read=read) for more in (" + 'of Apex '", ""))
    found = codes(tmp_path, _BEFORE.replace(loop, loop + before), changed((loop, loop + after)))
    assert found - {"AMP430"} == expected


_PAIR = """\
import torch
{imports}

def train(model, loader, args):
    first = torch.optim.SGD(model[0].parameters(), lr=0.1)
    second = torch.optim.SGD(model[1].parameters(), lr=0.1)
    {setup}
    for x, y in loader:
{body}


train(torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]).cuda(), [], None)
"""
_ONE_LOSS = """\
loss = model(x)
with amp.scale_loss(loss, [first, second]) as scaled_loss:
    scaled_loss.backward()
first.step()
second.step()
"""
_NATIVE = """\
with torch.cuda.amp.autocast():
    loss = model(x)
scaler.scale(loss).backward()
scaler.step(first)
scaler.step(second)
scaler.update()
"""


def pair(before: str, after: str, made: str = "scaler = torch.cuda.amp.GradScaler()") -> tuple[str, str]:
    """One round of a training with Apex, and natively; mixed precision is always on."""
    setup = "model, (first, second) = amp.initialize(model, [first, second])"
    sides = [("from apex import amp\n", setup, before), ("", made, after)]
    parts = [(imports, setup, textwrap.indent(body.strip("\n"), " " * 8)) for imports, setup, body in sides]
    one, other = (_PAIR.format(imports=imports, setup=setup, body=body) for imports, setup, body in parts)
    return one, other


def test_two_optimizers_of_one_loss_share_an_update(tmp_path):
    assert codes(tmp_path, *pair(_ONE_LOSS, _NATIVE)) <= {"AMP430"}
    each = _NATIVE.replace("scaler.step(first)\n", "scaler.step(first)\nscaler.update()\n")
    assert codes(tmp_path, *pair(_ONE_LOSS, each)) == {"AMP415"}


def test_an_optimizer_belongs_to_one_scaler(tmp_path):
    made = "scaler, other = torch.cuda.amp.GradScaler(), torch.cuda.amp.GradScaler()"
    both = _NATIVE.replace("scaler.step(first)", "scaler.unscale_(first)\nother.step(first)")
    assert "AMP414" in codes(tmp_path, *pair(_ONE_LOSS, both, made))


def test_gradients_are_read_only_when_unscaled(tmp_path):
    before = _ONE_LOSS.replace("first.step()", "log(model.weight.grad.norm())\nfirst.step()")
    wrong = _NATIVE.replace("scaler.step(first)", "log(model.weight.grad.norm())\nscaler.step(first)")
    right = wrong.replace("log(", "scaler.unscale_(first)\nlog(")
    assert "AMP426" in codes(tmp_path, *pair(before, wrong))
    assert codes(tmp_path, *pair(before, right)) <= {"AMP430"}


def test_a_loss_outside_of_autocast_is_a_note(tmp_path):
    before = _ONE_LOSS.replace("loss = model(x)", "loss = torch.nn.functional.mse_loss(model(x), y)")
    outside = _NATIVE.replace("    loss = model(x)", "    out = model(x)\nloss = torch.nn.functional.mse_loss(out, y)")
    result = judged(tmp_path, *pair(before, outside))
    assert (result.exit_code, "AMP411" in result.stdout) == (0, True)


def test_a_state_that_is_not_saved_any_more_is_lost(tmp_path):
    assert codes(tmp_path, _BEFORE, changed((_SAVED, "}"))) == {"AMP420"}


_HELPER = """\
class NativeScaler:
    def __init__(self, enabled):
        self._scaler = torch.cuda.amp.GradScaler(enabled=enabled)

    def __call__(self, loss, optimizer, parameters, update):
        self._scaler.scale(loss).backward()
        if update:
            self._scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(parameters, 1.0)
            self._scaler.step(optimizer)
            self._scaler.update()

    def state_dict(self):
        return self._scaler.state_dict()

    def load_state_dict(self, state):
        self._scaler.load_state_dict(state)


def train("""


def test_a_helper_around_the_scaler_is_undecided_and_not_wrong(tmp_path):
    after = changed(
        ("def train(", _HELPER),
        (_MADE, "scaler = NativeScaler(args.fp16)\n"),
        ("        scaler.scale(loss).backward()\n", ""),
        (
            "        if (step + 1) % args.accumulate == 0:\n" + _STEP,
            "        scaler(loss, optimizer, model.parameters(), (step + 1) % args.accumulate == 0)\n"
            "        if (step + 1) % args.accumulate == 0:\n",
        ),
    )
    result = judged(tmp_path, _BEFORE, after)
    assert (result.exit_code, "goes through `scaler`" in result.stdout) == (2, True), result.stdout


def test_a_switch_of_another_name_is_assumed(tmp_path):
    after = _AFTER.replace("--fp16", "--amp").replace("args.fp16", "args.amp")
    result = judged(tmp_path, _BEFORE, after, "-v")
    assert "`args.amp` is false where mixed precision is off" in result.stdout
    assert "AMP421" not in result.stdout  # that the old option is gone is another matter


def test_every_difference_of_a_function_is_named(tmp_path):
    after = changed(("    model.train()\n", ""), ("parameters(), 1.0)", "parameters(), 2.0)"))
    result = judged(tmp_path, _BEFORE, after)
    assert [line for line in result.stdout.splitlines() if line.startswith("    - ")][:-1] == [
        "    - 14 | model.train()",
        "    - 26 | nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "    - 24 | nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)",
    ], result.stdout


def test_a_part_of_apex_that_is_tried_inside_of_the_try_goes_with_it(tmp_path):
    tried = """\
try:
    from apex import amp
    try:
        from apex.parallel import convert_syncbn_model
        HAS_SYNCBN = True
    except AttributeError:
        HAS_SYNCBN = False
    HAS_AMP = True
except ImportError:
    HAS_AMP = False
    HAS_SYNCBN = False
"""
    before = _BEFORE.replace("from apex import amp\n", tried)
    assert judged(tmp_path, before, _AFTER).exit_code == 0
    assert (
        judged(tmp_path, before, _AFTER.replace("import argparse\n", "import argparse\n\nHAS_AMP = True\n")).exit_code
        == 0
    )


# -- what it is given, and what it says -----------------------------------------------------------------


def test_text_names_the_line_of_both_sides_the_rule_and_what_to_do(tmp_path):
    result = judged(tmp_path, _BEFORE, changed(("(enabled=args.fp16):", "():")))
    lines = result.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if "AMP421" in line)
    assert lines[at].endswith(
        "after.py:15: AMP421 mixed precision is switched in another way in train: mixed precision is on where the original is off, by `args.fp16`"
    )
    assert lines[at + 1] == "    + 15 | with torch.cuda.amp.autocast():"
    assert lines[at + 2].startswith("    why: ") and lines[at + 3].startswith("    do:  ")
    assert result.exit_code == 1


def test_json_has_both_sides(tmp_path):
    data = json.loads(
        judged(tmp_path, _BEFORE, changed(("    model.train()\n", "")), "--output-format", "json", "-q").stdout
    )
    jsonschema.validate(data, json.loads((ROOT.parent / "docs" / "judge.schema.json").read_text()))
    finding = next(one for one in data["findings"] if one["code"] == "AMP420")
    assert (data["verdict"], finding["before"], finding["after"], finding["function"]) == (
        "wrong",
        {"line": 14, "cell": None, "text": "model.train()"},
        None,
        "train",
    )


@pytest.mark.parametrize("kind", ["sarif", "github"])
def test_other_formats_name_the_code_and_the_place(tmp_path, kind):
    result = judged(tmp_path, _BEFORE, changed(("(enabled=args.fp16):", "():")), "--output-format", kind, "-q")
    assert "AMP421" in result.stdout and "after.py" in result.stdout and "15" in result.stdout


def test_a_file_that_does_not_parse_is_undecided_and_nothing_is_proved(tmp_path):
    result = judged(tmp_path, _BEFORE, _AFTER + "(\n")
    assert (result.exit_code, result.stdout.splitlines()[-1].startswith("undecided: ")) == (2, True)
    assert "proved: nothing" in result.stdout


def test_a_comment_or_an_option_silences_a_finding(tmp_path):
    noisy = "    " + "with torch.cuda.amp.autocast():"
    quiet = changed(("    with torch.cuda.amp.autocast(enabled=args.fp16):", f"{noisy}  # amp-migrate: ignore[AMP421]"))
    assert judged(tmp_path, _BEFORE, quiet).exit_code == 0
    plain = changed(("    with torch.cuda.amp.autocast(enabled=args.fp16):", noisy))
    assert judged(tmp_path, _BEFORE, plain, "--ignore", "AMP421").exit_code == 0


def test_trees_are_judged_together(tmp_path):
    for side, source in (
        ("old", _BEFORE),
        ("new", _AFTER.replace("def train(", "def fit(").replace("    train(", "    fit(")),
    ):
        (tmp_path / side).mkdir()
        (tmp_path / side / "train.py").write_text(source)
        (tmp_path / side / "sweep.py").write_text("from train import train\n\ntrain(1, 2, 3, 4)\n")
    result = CliRunner().invoke(judge, ["--before", str(tmp_path / "old"), "--after", str(tmp_path / "new")])
    assert result.exit_code == 1
    assert "sweep.py:1: AMP423" in result.stdout


def test_apex_that_was_not_to_go_is_no_mistake(tmp_path):
    edited = _BEFORE.replace("lr=0.1", "lr=0.2")
    assert codes(tmp_path, _BEFORE, edited) == {"AMP420"}
    for side, names in (("old", ["other"]), ("new", ["other", "train"])):
        (tmp_path / side).mkdir()
        for name in names:
            (tmp_path / side / f"{name}.py").write_text(_BEFORE if name == "train" else "print(1)\n")
    result = CliRunner().invoke(judge, ["--before", str(tmp_path / "old"), "--after", str(tmp_path / "new")])
    assert result.exit_code == 0, result.stdout


def test_an_assertion_about_apex_may_go(tmp_path):
    before = _BEFORE.replace("\n\ndef train", '\nassert not args.fp16 or amp, "Apex is missing"\n\n\ndef train', 1)
    assert codes(tmp_path, before, _AFTER) == set()


def test_bad_usage_is_2(tmp_path):
    assert CliRunner().invoke(judge, []).exit_code == 2
    (tmp_path / "a.py").write_text("")
    arguments = ["--before", str(tmp_path), "--after", str(tmp_path / "a.py")]
    assert CliRunner().invoke(judge, arguments).exit_code == 2


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def test_a_revision_is_compared_with_the_work_tree(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "train.py").write_text(_BEFORE)
    git(tmp_path, "add", "."), git(tmp_path, "commit", "-qm", "before")
    monkeypatch.chdir(tmp_path)
    assert "nothing changed" in CliRunner().invoke(judge, ["--since", "HEAD"]).stdout
    (tmp_path / "train.py").write_text(changed(("            scaler.unscale_(optimizer)\n", "")))
    result = CliRunner().invoke(judge, ["--since", "HEAD"])
    assert (result.exit_code, "train.py:19: AMP401" in result.stdout) == (1, True), result.stdout
    (tmp_path / "train.py").write_text(_AFTER)
    assert CliRunner().invoke(judge, ["--since", "HEAD", "train.py"]).exit_code == 0
    assert CliRunner().invoke(judge, ["--since", "nowhere"]).exit_code == 2


def test_a_change_that_migrates_nothing_may_change_the_program(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q", "-b", "main")
    for name, source in (("train.py", _AFTER), ("old.py", _BEFORE)):
        (tmp_path / name).write_text(source)
    git(tmp_path, "add", "."), git(tmp_path, "commit", "-qm", "before")
    monkeypatch.chdir(tmp_path)
    for name, source in (("train.py", _AFTER), ("old.py", _BEFORE)):
        (tmp_path / name).write_text(source.replace("lr=0.1", "lr=0.2"))
    result = CliRunner().invoke(judge, ["--since", "HEAD"])
    assert (result.exit_code, result.stdout) == (0, "same: proved: steps; assumed: nothing\n")
    (tmp_path / "train.py").write_text(_AFTER.replace("            scaler.update()\n", ""))
    assert "AMP409" in CliRunner().invoke(judge, ["--since", "HEAD"]).stdout


def test_no_torch_is_needed_and_nothing_is_run(tmp_path):
    for name, source in (("before.py", _BEFORE), ("after.py", _AFTER)):
        (tmp_path / name).write_text(source + "raise SystemExit(7)\n")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from amp_migrate.cli.judge import judge\n"
        f"judge(['--before', {str(tmp_path / 'before.py')!r}, '--after', {str(tmp_path / 'after.py')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1].partition(":")[0]) == (0, "same"), done.stderr


def test_a_migration_by_us_says_what_was_proved(tmp_path):
    (tmp_path / "train.py").write_text(_BEFORE)
    command = [sys.executable, "-m", "amp_migrate", "train.py"]
    done = subprocess.run([*command, "-v"], cwd=tmp_path, capture_output=True, text=True, check=True)
    proved = "train.py: proved: same program with and without mixed precision, steps, names, without Apex"
    assert [line for line in done.stderr.splitlines() if line.startswith(proved)], done.stderr
    done = subprocess.run(
        [*command, "--output-format", "json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["files"][0]["proof"]["proved"][:2] == [
        "same program with and without mixed precision",
        "steps",
    ]


def test_what_is_assumed_is_named_as_its_file_is(tmp_path):
    folder = tmp_path / "project" / "tools"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(_BEFORE)
    command = [sys.executable, "-m", "amp_migrate", "project", "-v"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    said = [line.strip() for line in done.stderr.splitlines() if " assumed: " in line and line.startswith("    ")]
    assert said == ["project/tools/train.py:24: assumed: optimizer has the parameters model.parameters()"], done.stderr


_BASE = """\
import torch


class Trainer(object):
    def __init__(self, task, optimizer, noise, bound):
        self.task, self.optimizer, self.noise, self.bound = task, optimizer, noise, bound
"""
_TRAINER = """\
import math

import torch
{imports}
from base import Trainer


class MixedTrainer(Trainer):
    def __init__(self, task, optimizer, noise, bound):
        super(MixedTrainer, self).__init__(task, optimizer, noise, bound)
{setup}
    def step(self, x, y):
        self.noise(self.task)
{backward}
        norm = -1
        if self.bound > 0:
{clip}
        if math.isfinite(norm):
{step}
            self.optimizer.zero_grad()
        else:
            print("overflow")
{overflow}
"""
_APEX_TRAINER = _TRAINER.format(
    imports="from apex import amp",
    setup="        self.task, self.optimizer = amp.initialize(self.task, self.optimizer, opt_level='O1')",
    backward="        with amp.scale_loss(self.task(x, y), self.optimizer) as loss:\n            loss.backward()",
    clip="            norm = torch.nn.utils.clip_grad_norm_(amp.master_params(self.optimizer), self.bound)",
    step="            self.optimizer.step()",
    overflow="",
)


def native_trainer(overflow: str = "") -> str:
    return _TRAINER.format(
        imports="",
        setup="        self.scaler = torch.cuda.amp.GradScaler()",
        backward="        with torch.cuda.amp.autocast():\n            loss = self.task(x, y)\n"
        "        self.scaler.scale(loss).backward()",
        clip="            self.scaler.unscale_(self.optimizer)\n"
        "            norm = torch.nn.utils.clip_grad_norm_(self.task.parameters(), self.bound)",
        step="            self.scaler.step(self.optimizer)\n            self.scaler.update()",
        overflow=overflow,
    )


def judged_trainer(folder: Path, after: str, base: str = _BASE) -> Result:
    for side, script in (("before", _APEX_TRAINER), ("after", after)):
        (folder / side).mkdir()
        (folder / side / "base.py").write_text(base)
        (folder / side / "trainer.py").write_text(script)
    return CliRunner().invoke(judge, ["--before", str(folder / "before"), "--after", str(folder / "after")])


def test_a_base_class_at_hand_that_knows_no_scaler_hides_nothing(tmp_path):
    """On an overflow nothing updates the scaler, and the next unscale_ raises."""
    assert "AMP408" in judged_trainer(tmp_path, native_trainer()).stdout


def test_a_base_class_out_of_sight_may_update_the_scaler(tmp_path):
    assert "AMP408" not in judged_trainer(tmp_path, native_trainer(), "from framework import Trainer\n").stdout


def test_what_a_name_was_set_to_decides_about_its_test(tmp_path):
    """Where nothing is clipped, the norm is -1, which is finite: there is no update without a step."""
    told = judged_trainer(tmp_path, native_trainer("            self.scaler.update()"))
    assert (told.exit_code, "AMP4" in told.stdout) == (0, False), told.stdout


_RESUMED = """\
import argparse

import torch
{imports}
parser = argparse.ArgumentParser()
parser.add_argument("--resume", action="store_true")
config = parser.parse_args()


def train(rank, args):
    model = torch.nn.Linear(8, 2).to(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{setup}
    if rank == 0:
        print("loading")
        if args.resume:
            {state}.load_state_dict(torch.load("last.pt"))
    for x in range(3):
{step}


train(0, config)
"""


def test_an_option_under_another_name_is_not_a_new_switch(tmp_path):
    """`args.resume` of the function is `config.resume` of the script: both sides have that test."""
    before = _RESUMED.format(
        imports="from apex import amp\n",
        setup="    model, optimizer = amp.initialize(model, optimizer, opt_level='O1')",
        state="amp",
        step="        with amp.scale_loss(model(x).sum(), optimizer) as loss:\n            loss.backward()\n"
        "        optimizer.step()",
    )
    after = _RESUMED.format(
        imports="",
        setup="    scaler = torch.cuda.amp.GradScaler()",
        state="scaler",
        step="        with torch.cuda.amp.autocast():\n            loss = model(x).sum()\n"
        "        scaler.scale(loss).backward()\n        scaler.step(optimizer)\n        scaler.update()",
    )
    told = judged(tmp_path, before, after)
    assert told.exit_code == 0, told.stdout
    assert "assumed: nothing" in told.stdout


def test_gradients_that_the_original_read_scaled_may_stay_scaled(tmp_path):
    """Inside of `with amp.scale_loss` they are: Apex unscales behind it."""
    before = """\
import torch
from apex import amp

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x in loader:
    loss = model(x).sum()
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
        print(model.weight.grad)
    optimizer.step()
"""
    after = """\
import torch

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler()
for x in loader:
    with torch.cuda.amp.autocast():
        loss = model(x).sum()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    print(model.weight.grad)
    scaler.step(optimizer)
    scaler.update()
"""
    assert codes(tmp_path, before, after) == set()
    behind = before.replace("        print(", "    print(")
    assert "AMP426" in codes(tmp_path, behind, after)
