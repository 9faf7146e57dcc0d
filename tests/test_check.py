"""The checker finds every mistake that people make in native AMP, and nothing in correct code."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from amp_migrate.check import check_module
from amp_migrate.facts import Facts, SourceFile
from amp_migrate.files.helpers import Helpers
from amp_migrate.files.imports import module_name
from amp_migrate.files.indentation import with_spaces
from amp_migrate.files.parse import parse
from tests.unit_fixture import UNIT_FIXTURES, Tree, UnitFixture, write_tree

_SCRIPT = """
import torch
from torch.nn.utils import clip_grad_norm_

model = torch.nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
other = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = torch.nn.MSELoss()
scaler = torch.cuda.amp.GradScaler()
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()
"""
_REGION = """
with torch.cuda.amp.autocast():
    loss = criterion(model(x), y)
"""


def violations(step: str, *, whole: bool = False) -> list[str]:
    source = (_SCRIPT.lstrip() + textwrap.indent(textwrap.dedent(step).lstrip(), "    ")).encode()
    before = Facts.of_module(parse(source)) if whole else None
    return [found.kind for found in check_module(Facts.of_module(parse(source)), before)]


def violations_of_whole(step: str) -> list[str]:
    """The same where it is what becomes of another script."""
    source = _SCRIPT.lstrip() + textwrap.indent(textwrap.dedent(step).lstrip(), "    ")
    facts = Facts.of_module(parse(source.encode()))
    return [found.kind for found in check_module(facts, facts)]


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        (
            "clip of scaled gradients",
            "clip_grad_norm_(model.parameters(), 1.0)\nscaler.step(optimizer)\nscaler.update()",
        ),
        (
            "unscale_ twice",
            "scaler.unscale_(optimizer)\nscaler.unscale_(optimizer)\nscaler.step(optimizer)\nscaler.update()",
        ),
        ("unscale_ after step", "scaler.step(optimizer)\nscaler.unscale_(optimizer)\nscaler.update()"),
        ("step twice", "scaler.step(optimizer)\nscaler.step(optimizer)\nscaler.update()"),
        ("bare step", "optimizer.step()\nscaler.unscale_(optimizer)\nscaler.update()"),
        ("bare step", "scaler.unscale_(optimizer)\noptimizer.step()\nscaler.update()"),
        ("update without step", "scaler.update()\nscaler.step(optimizer)\nscaler.update()"),
        ("update without step", "if i % 2:\n    scaler.step(optimizer)\nscaler.update()"),
        (
            "backward after unscale_",
            "scaler.unscale_(optimizer)\nscaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
        ),
        ("backward without update", "scaler.step(optimizer)"),
        (
            "unscale_ twice",
            "if i % 2:\n    scaler.unscale_(optimizer)\n    clip_grad_norm_(model.parameters(), 1.0)\n"
            "scaler.unscale_(optimizer)\nscaler.step(optimizer)\nscaler.update()",
        ),
    ],
)
def test_mistakes_after_the_backward(kind, step):
    assert kind in violations(_REGION + "scaler.scale(loss).backward()\n" + step)


def test_backward_under_autocast():
    step = """
    with torch.cuda.amp.autocast():
        loss = criterion(model(x), y)
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    """
    assert violations(step) == ["backward under autocast"]


def test_criterion_on_half():
    step = """
    with torch.cuda.amp.autocast():
        output = model(x)
    loss = criterion(output, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    """
    assert violations(step) == ["criterion on half"]


@pytest.mark.parametrize(
    ("criterion", "model", "found"),
    [
        ("torch.nn.MSELoss()", "make()", ["criterion on half"]),
        ("torch.nn.BCELoss()", "make()", []),
        ("torch.nn.BCELoss()", "torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Sigmoid())", ["criterion on half"]),
    ],
)
def test_a_model_out_of_sight_gives_a_binary_cross_entropy_float32(criterion, model, found):
    """It raises on half values beside float32 targets."""
    step = f"""
    net, bce = {model}, {criterion}
    with torch.cuda.amp.autocast():
        output = net(x)
    loss = bce(output, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    """
    assert violations(step) == found


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("scaled twice", "scaler.scale(scaler.scale(loss)).backward()\nscaler.step(optimizer)\nscaler.update()"),
        ("scaled twice", "scaled = scaler.scale(loss)\nscaler.scale(scaled).backward()"),
        ("plain backward", "loss.backward()\nscaler.step(optimizer)\nscaler.update()"),
        ("plain backward", "scaler.scale(loss).backward()\nloss.backward()\nscaler.step(optimizer)\nscaler.update()"),
        ("bare step", "scaler.scale(loss).backward()\nscaler.step(optimizer)\nother.step()\nscaler.update()"),
        (
            "update between steps",
            "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()\nscaler.step(other)\n"
            "scaler.update()",
        ),
        (
            "clip of scaled gradients",
            "scaler.scale(loss).backward()\nscaler.unscale_(other)\n"
            "clip_grad_norm_((p for g in optimizer.param_groups for p in g['params']), 1.0)\n"
            "scaler.step(optimizer)\nscaler.step(other)\nscaler.update()",
        ),
    ],
)
def test_mistakes_in_whole_units(kind, step):
    """What is a mistake only where all files that have to do with the training are at hand."""
    assert kind in violations_of_whole(_REGION + step)


_SAVED = """
{"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
"""


@pytest.mark.parametrize(
    ("step", "kinds"),
    [
        (_SAVED + "optimizer.load_state_dict(x['optimizer'])", ["half of a checkpoint"]),
        ("optimizer.load_state_dict(x['optimizer'])\nscaler.load_state_dict(x['scaler'])", ["half of a checkpoint"]),
        (_SAVED + "scaler.load_state_dict(x['amp'])", ["half of a checkpoint"]),
        (_SAVED + "optimizer.load_state_dict(x['optimizer'])\nscaler.load_state_dict(x['scaler'])", []),
        (_SAVED + "optimizer.load_state_dict(x[max(x)])", []),
        (_SAVED, []),
    ],
)
def test_states_of_scalers(step, kinds):
    done = "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()\n"
    assert violations_of_whole(_REGION + done + step) == kinds


@pytest.mark.parametrize(
    "step",
    [
        "scaler.scale(loss).backward()\nscaler.step(optimizer)\nloss.backward()\nother.step()\nscaler.update()",
        "loss.backward()\nother.step()\noptimizer.zero_grad()\n"
        "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
        "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.step(other)\nscaler.update()",
    ],
)
def test_whole_units_that_are_correct(step):
    assert violations_of_whole(_REGION + step) == []


@pytest.mark.parametrize(
    "step",
    [
        "scaler.step(optimizer)\nscaler.update()",
        "scaler.unscale_(optimizer)\nclip_grad_norm_(model.parameters(), 1.0)\nscaler.step(optimizer)\nscaler.update()",
        "if (i + 1) % 4 == 0:\n    scaler.step(optimizer)\n    scaler.update()",
        "if (i + 1) % 4 == 0:\n    scaler.unscale_(optimizer)\nif (i + 1) % 4 == 0:\n    scaler.step(optimizer)\n"
        "    scaler.update()",
        "clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())\nif i % 2:\n    scaler.step(optimizer)\n"
        "    scaler.update()",
        "scaler.step(optimizer)\nscaler.step(other)\nscaler.update()",
        "scaler.unscale_(optimizer)\nif not torch.isfinite(loss):\n    scaler.update()\n    continue\n"
        "scaler.step(optimizer)\nscaler.update()",
    ],
)
def test_correct_steps(step):
    assert violations(_REGION + "scaler.scale(loss).backward()\n" + step) == []


@pytest.mark.parametrize(
    ("enabled", "test", "kinds"),
    [
        ("scaler.is_enabled()", "not scaler.is_enabled()", []),
        ("scaler.is_enabled()", "not (scaler.is_enabled() and scaler is not None)", []),
        ("on[0]", "not on[0]", []),
        ("on[0]", "not on[1]", ["plain backward"]),
        ("on[0]", "on[0]", ["plain backward"]),
    ],
)
def test_what_says_that_mixed_precision_is_on(enabled, test, kinds):
    region = _REGION.replace("autocast()", f"autocast(enabled={enabled})")
    backwards = f"if {test}:\n    loss.backward()\nelse:\n    scaler.scale(loss).backward()\n"
    assert violations(region + backwards + "scaler.step(optimizer)\nscaler.update()", whole=True) == kinds


def test_names_that_a_change_unbinds():
    before = Facts.of_module(parse(b"from apex import amp\nimport os\nprint(amp, os)\n"))
    after = Facts.of_module(parse(b"import os\nprint(amp)\n"))
    assert {found.kind for found in check_module(after, before)} == {"unbound name", "unused import"}


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("level = trainer.level\n    trainer = make()", {"unbound name"}),
        ("trainer = make()\n    level = trainer.level", set()),
        ("trainer = trainer.start(make)\n    level = 1", {"unbound name"}),
        ("for _ in range(2):\n        level = trainer.level if _ else 0\n        trainer = make()", set()),
    ],
)
def test_a_variable_is_not_read_before_it_has_a_value(body, kinds):
    before = Facts.of_module(parse(b"def main(make):\n    trainer = make()\n    return trainer\n"))
    after = Facts.of_module(parse(f"def main(make):\n    {body}\n    return trainer, level\n".encode()))
    assert {found.kind for found in check_module(after, before)} == kinds


def test_a_sigmoid_of_floats_is_no_half():
    step = """
    with torch.cuda.amp.autocast():
        p = torch.sigmoid(model(x).float())
    loss = torch.nn.functional.binary_cross_entropy(p, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    """
    assert violations(step) == []


_MAIN = """
import torch
from compat import READY, backward
from settings import Trainer

if READY:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler()
    for x in Trainer(3):
        loss = model(x).sum()
        backward(loss, optimizer, scaler)
        scaler.step(optimizer)
        scaler.update()
"""
_COMPAT = """
__all__ = ["READY", "backward"]
READY = True
def backward(loss, optimizer, scaler):
    scaler.scale(loss).backward()
"""
_SETTINGS = """
import compat
class Trainer:
    def __init__(self, steps, *, name="a"):
        self.steps = steps
    def run(self):
        return self.steps, compat.READY
"""
_FILES = {"main": _MAIN, "compat": _COMPAT, "settings": _SETTINGS}


def unit(files):
    """The facts of modules that import each other by their names."""
    return Facts([SourceFile(parse(source.encode()), f"{name}.py", name) for name, source in files.items()])


def test_files_that_fit_together():
    assert check_module(unit(_FILES), unit(_FILES)) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "kind", "message"),
    [
        ("main", "optimizer, scaler)", "optimizer)", "call does not fit", "backward: missing a required argument"),
        ("main", "scaler)", "scaler, 1)", "call does not fit", "backward: too many positional arguments"),
        ("main", "scaler)", "scaler, on=1)", "call does not fit", "backward: got an unexpected keyword argument 'on'"),
        ("main", "Trainer(3)", "Trainer(3, 'b')", "call does not fit", "__init__: too many positional arguments"),
        ("compat", "optimizer, scaler)", "optimizer)", "call does not fit", "backward: too many positional arguments"),
        ("compat", "optimizer, scaler)", "optimizer)", "unbound name", "scaler is not defined"),
        ("compat", "READY = True", "", "unbound name", "compat.READY is not defined any more"),
        ("compat", "READY = True", "", "unbound name", "READY in __all__ is not defined any more"),
        ("settings", "self.steps =", "steps =", "unbound name", "self.steps is never set"),
        ("main", "scaler.step(optimizer)", "optimizer.step()", "bare step", "no optimizer steps on these"),
        ("main", "scaler.step(", "scaler.step(optimizer); scaler.step(", "step twice", "optimizer has stepped since"),
        ("main", "scaler.update()", "pass", "backward without update", "no update() since the last step"),
        ("compat", "scaler.scale(loss)", "loss", "plain backward", "optimizer has gradients of a loss that the scaler"),
    ],
)
def test_mistakes_across_files(file, old, new, kind, message):
    assert old in _FILES[file]
    before = unit(_FILES) if message != "self.steps is never set" else unit({"main": "", "compat": "", "settings": ""})
    after = unit({**_FILES, file: _FILES[file].replace(old, new)})
    found = [(one.kind, one.message) for one in check_module(after, before)]
    assert any(one == kind and text.startswith(message) for one, text in found), found


@pytest.mark.parametrize("fixture", UNIT_FIXTURES, ids=lambda fixture: fixture.name)
def test_expected_units_keep_every_invariant(fixture: UnitFixture, tmp_path: Path):
    before, after = (_facts_of(tmp_path, tree) for tree in (fixture.before, fixture.expected))
    assert check_module(after, before) == []


def _facts_of(root: Path, tree: Tree) -> Facts:
    write_tree(root, tree)
    scripts = [root / name for name in tree if name.endswith(".py")]
    modules = [parse(with_spaces(path.read_bytes())) for path in scripts]  # one is indented as Python alone can read it
    files = zip(modules, scripts, strict=True)
    return Facts([SourceFile(module, str(path), module_name(path)) for module, path in files], Helpers())
