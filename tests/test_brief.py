"""Briefs of refused units: what somebody is told who migrates them by hand."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from amp_migrate.cli import _commands
from amp_migrate.guide import rules, text
from tests.fixture import ROOT

SCHEMA = json.loads((ROOT.parent / "docs" / "report.schema.json").read_text())
UNITS = {
    "guards": "apex/refuse_guards_disagree",
    "dispatch": "units/refuse_dynamic_dispatch/before",
    "closure": "fp16_utils/closure",
    "scale": "half/refuse_scale_moved_by_hand",
    "trainer": "plain/refuse_trainer_of_lightning",
}
STEPS = ["Scaler", "Switch", "Autocast", "Backward"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("project")
    for name, fixture in UNITS.items():
        (root / name).mkdir()
        for file in (ROOT / fixture).glob("*.py"):
            if file.name != "after.py":
                shutil.copy(file, root / name)
    return root


@pytest.fixture(scope="module")
def briefs(folder) -> dict[str, Any]:
    """The brief of each unit, by the folder of its first file."""
    found = briefs_of(folder)
    assert len(found) == len(UNITS)
    return {Path(one["files"][0]).parent.name: one for one in found}


def briefs_of(path: Path) -> list[Any]:
    report = json.loads(CliRunner().invoke(_commands, ["migrate", str(path), "--output-format", "json"]).stdout)
    jsonschema.validate(report, SCHEMA)
    return report["briefs"]


def places(brief: Any, what: str) -> list[tuple[int, int, int, int]]:
    found = [one for one in brief["places"] if one["what"] == what]
    return [(one["line"], one["column"], one["end_line"], one["end_column"]) for one in found]


def texts(brief: Any, name: str) -> list[str]:
    return [one["text"] for one in brief["known"][name]]


def begins(brief: Any) -> list[str]:
    return [rule.split(":")[0] for rule in brief["keep"]]


def test_all_that_an_edit_changes_has_its_place(briefs):
    brief = briefs["guards"]
    assert places(brief, "import") == [(3, 1, 3, 21)]
    assert places(brief, "setup") == [(14, 24, 14, 72)]
    assert places(brief, "forward") == [(16, 12, 16, 51)]
    assert places(brief, "backward") == [(19, 14, 19, 45)]
    assert places(brief, "step") == [(23, 5, 23, 21)]
    assert len(brief["places"]) == 5


def test_what_is_known_of_the_training(briefs):
    brief = briefs["guards"]
    assert texts(brief, "models") == ["model"]
    assert set(texts(brief, "optimizers")) == {"optimizer"}
    assert texts(brief, "losses") == ["loss"]
    assert texts(brief, "guards") == ["args.fp16", "args.scaling"]
    assert texts(brief, "levels") == ['"O1"']
    assert 'torch.device("cuda" if torch.cuda.is_available() else "cpu")' in texts(brief, "devices")
    assert brief["unknown"] == []


def test_what_is_not_known_is_said(briefs):
    assert briefs["trainer"]["unknown"] == ["models", "optimizers", "losses", "devices"]
    assert "models" in briefs["scale"]["unknown"]


def test_the_rule_that_prevents_it_and_its_page(briefs):
    (reason,) = briefs["guards"]["reasons"]
    assert (reason["code"], reason["line"], reason["source"]) == ("AMP905", 18, ["    if args.scaling:"])
    assert reason["page"].endswith("/AMP905/")
    assert reason["why"] and reason["what_to_do"]
    (reason,) = briefs["dispatch"]["reasons"]  # and no word of the other file, which only belongs to it
    assert (reason["code"], Path(reason["path"]).name) == ("AMP915", "main.py")


def test_every_place_is_in_the_source(briefs):
    for brief in briefs.values():
        for one in [*brief["reasons"], *brief["places"]]:
            lines = Path(one["path"]).read_text().splitlines()
            assert one["source"] == lines[one["line"] - 1 : one["end_line"]]
            assert 0 < one["column"] <= len(lines[one["line"] - 1])
            assert one["end_column"] <= len(lines[one["end_line"] - 1]) + 1
        for one in (one for found in brief["known"].values() for one in found):
            line = Path(one["path"]).read_text().splitlines()[one["line"] - 1]
            if one["line"] == one["end_line"]:
                assert one["text"] in line[one["column"] - 1 :]


def test_rules_are_those_that_concern_the_unit(briefs):
    assert begins(briefs["guards"]) == [*STEPS, "Step", "Update", "Apex", "The rest"]
    assert begins(briefs["dispatch"]) == [*STEPS, "Unscale", "Step", "Update", "Apex", "The rest"]
    assert "Half weights" in begins(briefs["scale"])
    assert begins(briefs["trainer"])[-2:] == ["Update", "The rest"]  # without Apex nothing of it has to go
    assert list(rules())[-1] == "The rest" and len(rules()) == text().count("**") // 2


BY_HAND = [
    ("from apex import amp\n", ""),
    ('if args.fp16:\n    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")\n', "scaler = SCALER\n"),
    ("    loss = model(", '    with torch.amp.autocast("cuda", enabled=args.fp16):\n        loss = model('),
    ("    if args.scaling:\n        with amp.scale_loss(loss, optimizer) as scaled_loss:\n", ""),
    ("            scaled_loss.backward()\n    else:\n        loss.backward()\n", "    scaler.scale(loss).backward()\n"),
    ("    optimizer.step()\n", "    scaler.step(optimizer)\n    scaler.update()\n"),
    ("SCALER", 'torch.amp.GradScaler("cuda", enabled=args.fp16 and args.scaling)'),
]


def test_the_commands_judge_an_edit(folder, tmp_path):
    project = tmp_path / "guards"
    shutil.copytree(folder / "guards", project)
    (brief,) = briefs_of(project)
    copy = shlex.split(brief["check"]["original"].replace("ORIGINAL", str(tmp_path / "original")))
    assert copy[:2] == ["cp", "-r"]
    shutil.copytree(*copy[2:])
    script = project / "before.py"
    migrated = script.read_text()
    for old, new in BY_HAND:
        assert old in migrated
        migrated = migrated.replace(old, new)
    script.write_text(migrated)
    assert judged(brief, tmp_path) == (0, "same")
    script.write_text(migrated.replace("    scaler.update()\n", ""))
    assert judged(brief, tmp_path) == (1, "wrong")


def test_places_of_a_notebook_have_cells(tmp_path):
    lines = (ROOT / UNITS["guards"] / "before.py").read_text().splitlines(keepends=True)
    cells = [
        {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": source}
        for source in (lines[:14], lines[14:])
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "train.ipynb").write_text(json.dumps(notebook, indent=1))
    (brief,) = briefs_of(tmp_path)
    (step,) = (one for one in brief["places"] if one["what"] == "step")
    assert step["cell"] == {"number": 2, "line": len(lines) - 14 - 1}
    assert (step["column"], step["end_column"], step["source"]) == (5, 21, ["    optimizer.step()"])
    assert "optimizer.step()" in (tmp_path / "train.ipynb").read_text().splitlines()[step["line"] - 1]


def test_standard_input_has_nothing_to_compare_with():
    source = (ROOT / UNITS["guards"] / "before.py").read_text()
    stdout = CliRunner().invoke(_commands, ["migrate", "-", "--output-format", "json"], input=source).stdout
    (brief,) = json.loads(stdout)["briefs"]
    assert (brief["files"], brief["check"]) == (["-"], None)


def judged(brief: Any, root: Path) -> tuple[int, str]:
    words = shlex.split(brief["check"]["judge"].replace("ORIGINAL", str(root / "original")))
    result = CliRunner().invoke(_commands, words[1:])
    return result.exit_code, json.loads(result.stdout)["verdict"]


LIBRARY = """\
import math
import apex


class Trainer:
    def __init__(self, task, optimizer):
        self.task, self.optimizer = apex.amp.initialize(apex.parallel.convert_syncbn_model(task), optimizer)

    def step(self, inputs):
        loss = self.task(inputs)
        with apex.amp.scale_loss(loss, self.optimizer) as scaled:
            scaled.backward()
        norm = torch.nn.utils.clip_grad_norm_(apex.amp.master_params(self.optimizer), 1.0)
        if math.isfinite(norm):
            self.optimizer.step()
"""


def test_other_parts_of_apex_have_places_and_a_library_is_not_run(tmp_path):
    (tmp_path / "trainer.py").write_text(LIBRARY)
    (brief,) = briefs_of(tmp_path)
    assert places(brief, "part of Apex") == [(7, 57, 7, 97)]
    assert "call scaler.update() in its other branch, too" in brief["reasons"][0]["what_to_do"]
    assert brief["check"]["verify"] == []
