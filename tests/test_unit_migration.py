"""From the index to migrated units: programs, growth, context, and what is said where a unit stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import Result, migrate_project
from amp_migrate.cli.migrate import of_touched
from amp_migrate.engine import Outcome
from amp_migrate.files.imports import forget
from amp_migrate.rules.source_forms import PLAIN
from amp_migrate.units.index import Unit
from amp_migrate.units.programs import Programs
from amp_migrate.units.workspace import in_words
from amp_migrate.writing import written
from tests.unit_fixture import ROOT, read_tree, write_tree

IMPORTS = "import torch\nfrom apex import amp\n"
SETUP = """model = torch.nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
"""
LOOP = """for x, y in batches:
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""
SCRIPT = IMPORTS + "from helper import {0}\n" + SETUP + LOOP
SAVE = "def save(path):\n    torch.save(amp.state_dict(), path)\n"
LOAD = "def load(path):\n    amp.load_state_dict(torch.load(path))\n"
HELPER = IMPORTS + SAVE

OPTIONS = """import argparse

def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", {0})
    return parser.parse_args()
"""
GUARDED = """import torch
from apex import amp
from evaluation import evaluate

def main(args, batches):
    model = torch.nn.Linear(3, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.fp16:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for x, y in batches:
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
    evaluate(args, model, batches)
"""
EVALUATION = """import torch

def evaluate(args, model, batches):
    model.eval()
    with torch.no_grad():
        for x, y in batches:
            output = model(x)
            print(output.softmax(dim=1).cpu().numpy())
"""


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        (root / ".git").mkdir()

    def __call__(self, files: dict[str, str], *given: str) -> dict[str, Result]:
        """Write the files; migrate the project, or what is given of it."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        forget()
        results = migrate_project([self.root / name for name in given or (".",)])
        return {str(Path(result.path).relative_to(self.root)): result for result in results}

    def said(self, results: dict[str, Result]) -> list[str]:
        found = [finding for result in results.values() for finding in result.findings]
        return [f"{one.path}:{one.line} {one.code} {one.message}".replace(f"{self.root}/", "") for one in found]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


def states(results: dict[str, Result]) -> dict[str, str]:
    return {name: result.status for name, result in results.items()}


class TestPrograms:
    def test_scripts_with_guards_that_differ_share_a_helper(self, project: Project) -> None:
        guarded = SCRIPT.format("save").replace("model, opt", "if FP16:\n    model, opt", 1)
        guarded = guarded.replace("    with amp", "    if not FP16:\n        loss.backward()\n    else:\n     with amp")
        guarded = guarded.replace("        scaled_loss.b", "         scaled_loss.b") + "save('b')\n"
        results = project(
            {"a.py": SCRIPT.format("save") + "save('a')\n", "b.py": "FP16 = True\n" + guarded, "helper.py": HELPER}
        )
        assert states(results) == {"a.py": "migrated", "b.py": "migrated", "helper.py": "migrated"}
        assert b"save('a', scaler)" in results["a.py"].output and b"save('b', scaler)" in results["b.py"].output

    def test_a_script_that_calls_only_a_part_of_what_it_shares(self, project: Project) -> None:
        build = "def build():\n    " + SETUP.replace("\n", "\n    ") + "return model, optimizer\n"
        train = "def train(model, optimizer, batches):\n    " + LOOP.replace("\n", "\n    ").rstrip() + "\n"
        results = project(
            {
                "engine.py": IMPORTS + build + train,
                "main.py": "from engine import build, train\nmodel, optimizer = build()\ntrain(model, optimizer, [])\n",
                "show.py": "from engine import build\nmodel, optimizer = build()\nprint(model)\n",
            }
        )
        assert states(results) == {"engine.py": "migrated", "main.py": "migrated", "show.py": "untouched"}

    def test_one_script_prevents_all(self, project: Project) -> None:
        results = project(
            {
                "a.py": SCRIPT.format("save") + "save('a')\n",
                "b.py": SCRIPT.format("save") + "save(*['b'])\n",
                "helper.py": HELPER,
            }
        )
        belongs = "AMP901 belongs together with b.py, which cannot be migrated (line 13, AMP915)"
        assert project.said(results) == [
            f"a.py:1 {belongs}",
            "b.py:13 AMP915 save needs the scaler, but is called with starred arguments",
            f"helper.py:1 {belongs}",
        ]
        assert not any(result.changed for result in results.values())


UNIT = {"main.py": SCRIPT.format("save") + "save('a')\n", "helper.py": HELPER}


class TestOnlyWhatWasGiven:
    def test_one_file_of_a_unit_stays(self, project: Project) -> None:
        results = project(UNIT, "main.py")
        assert project.said(results) == [
            "main.py:1 AMP901 belongs together with helper.py, which was not given: name both, or their folder"
        ]
        assert states(results) == {"main.py": "left"}

    def test_both_files_are_migrated(self, project: Project) -> None:
        assert set(states(project(UNIT, "main.py", "helper.py")).values()) == {"migrated"}

    def test_context_is_not_needed(self, project: Project) -> None:
        files = {"main.py": GUARDED, "evaluation.py": EVALUATION}
        assert states(project(files, "main.py")) == {"main.py": "migrated"}
        assert (project.root / "evaluation.py").read_text() == EVALUATION


class TestContext:
    CALL = "from main import main\nfrom options import parse\nmain(parse(), [])\n"

    def test_evaluation_that_sees_the_guard(self, project: Project) -> None:
        options = {"options.py": OPTIONS.format("action='store_true'"), "run.py": self.CALL}
        results = project({"main.py": GUARDED, "evaluation.py": EVALUATION, **options})
        assert b"autocast(" in results["evaluation.py"].output
        assert dict(results["main.py"].unit)[results["evaluation.py"].path] == (
            "its evaluate runs the model without gradients"
        )

    def test_evaluation_that_others_use_stays(self, project: Project) -> None:
        options = {"options.py": OPTIONS.format("action='store_true'"), "run.py": self.CALL}
        other = {"test.py": "from evaluation import evaluate\nevaluate(None, None, [])\n"}
        results = project({"main.py": GUARDED, "evaluation.py": EVALUATION, **options, **other})
        assert [name for name, result in results.items() if result.changed] == ["main.py"]

    @pytest.mark.parametrize("other", ["", "from main import evaluate\nevaluate(object(), None, [])\n"])
    def test_a_script_that_borrows_the_evaluation_need_not_have_the_option(self, project: Project, other: str) -> None:
        own = GUARDED.replace("from evaluation import evaluate\n", EVALUATION.removeprefix("import torch\n"))
        results = project({"main.py": own, "other.py": other})
        assert results["main.py"].status == "migrated"
        assert results["main.py"].output.count(b"autocast(") == (1 if other else 2)

    @pytest.mark.parametrize(
        ("option", "enabled"), [("action='store_true'", b"args.fp16"), ("type=int", b"bool(args.fp16)")]
    )
    def test_options_that_a_caller_reads(self, project: Project, option: str, enabled: bytes) -> None:
        results = project(
            {
                "main.py": GUARDED,
                "evaluation.py": EVALUATION,
                "options.py": OPTIONS.format(option),
                "run.py": self.CALL,
            }
        )
        assert b'GradScaler("cuda", enabled=' + enabled + b")" in results["main.py"].output


class TestGrowth:
    def test_a_setup_two_callers_up(self, project: Project) -> None:
        step = "def step(model, optimizer, batches):\n    " + LOOP.replace("\n", "\n    ").rstrip() + "\n"
        setup = "def build():\n    " + SETUP.replace("\n", "\n    ") + "return model, optimizer\n"
        results = project(
            {
                "step.py": IMPORTS + step,
                "build.py": IMPORTS + setup,
                "train.py": "from step import step\ndef train(model, optimizer):\n    step(model, optimizer, [])\n",
                "main.py": "from build import build\nfrom train import train\nmodel, optimizer = build()\ntrain(model, optimizer)\n",
            }
        )
        assert set(states(results).values()) == {"migrated"}

    def test_a_setup_that_is_nowhere_is_not_looked_for(self, project: Project) -> None:
        step = "def step(model, optimizer, batches):\n    " + LOOP.replace("\n", "\n    ").rstrip() + "\n"
        results = project({"step.py": IMPORTS + step, "main.py": "from step import step\nstep(1, 2, [])\n"})
        assert project.said(results) == ["step.py:7 AMP901 losses are scaled here, but amp.initialize is not in sight"]

    def test_the_reason_of_another_unit_hides_nothing(self, project: Project) -> None:
        """A caller of two trainings: growing the one must not report what prevents the other."""
        one = IMPORTS + "def one(batches):\n    " + (SETUP + LOOP).replace("\n", "\n    ").rstrip() + "\n"
        one = one.replace('opt_level="O1"', "**settings()")
        other = one.replace("def one", "def other").replace("**settings()", 'opt_level="01"')
        results = project(
            {"one.py": one, "other.py": other, "main.py": "import one, other\none.one([])\nother.other([])\n"}
        )
        assert [said.split()[:2] for said in project.said(results)] == [
            ["one.py:6", "AMP902"],
            ["other.py:6", "AMP907"],
        ]

    @pytest.mark.parametrize(
        ("model", "name", "run"),
        [
            ("def detect(x):\n    return nms(x)\n", "detect", "detect(torch.ones(2))\n"),
            ("FINDERS = {'nms': nms}\n", "FINDERS", "FINDERS['nms'](torch.ones(2))\n"),
        ],
        ids=["a function", "a table"],
    )
    def test_casts_of_a_function_join_who_sets_apex_up_and_who_calls_it(
        self, project: Project, model: str, name: str, run: str
    ) -> None:
        results = project(
            {
                "layers.py": "from apex import amp\n@amp.float_function\ndef nms(x):\n    return x\n",
                "model.py": "from layers import nms\n" + model,
                "main.py": IMPORTS + f"from model import {name}\n" + SETUP + LOOP + run,
            }
        )
        assert states(results) == {"layers.py": "migrated", "main.py": "migrated", "model.py": "untouched"}

    def test_casts_of_a_function_whose_calls_are_not_known_stay(self, project: Project) -> None:
        results = project(
            {
                "layers.py": "from apex import amp\n@amp.float_function\ndef nms(x):\n    return x\n",
                "model.py": "import registry\nfrom layers import nms\nregistry.add(nms)\n",
                "main.py": IMPORTS + "from model import registry\n" + SETUP + LOOP + "registry.run(torch.ones(2))\n",
            }
        )
        assert project.said(results) == [
            "layers.py:2 AMP909 not all calls of nms are known, which is cast here",
            "main.py:1 AMP901 belongs together with layers.py, which cannot be migrated (line 2, AMP909)",
        ]


TRAINER = (
    IMPORTS
    + """class Trainer:
    def fit(self, batches):
        """
    + SETUP.replace("\n", "\n        ")
    + LOOP.replace("\n", "\n        ").replace("optimizer.step()", "self.update(optimizer)").rstrip()
    + """

    def update(self, optimizer):
        optimizer.step()
"""
)
DERIVED = "from trainer import Trainer\n\nclass Derived(Trainer):\n    def {0}(self, optimizer):\n        {1}\n"


class TestRelatives:
    @pytest.mark.parametrize("name", ["derived.py", "tests/test_trainer.py"])
    def test_an_override_prevents_the_migration(self, project: Project, name: str) -> None:
        results = project({"trainer.py": TRAINER, name: DERIVED.format("update", "optimizer.step()")})
        assert project.said(results) == ["trainer.py:12 AMP911 the step that follows this backward is not known"]

    def test_it_is_read_although_it_was_not_given(self, project: Project) -> None:
        files = {"trainer.py": TRAINER, "derived.py": DERIVED.format("update", "optimizer.step()")}
        assert states(project(files, "trainer.py")) == {"trainer.py": "left"}

    def test_what_overrides_nothing_does_not(self, project: Project) -> None:
        results = project({"trainer.py": TRAINER, "derived.py": DERIVED.format("other", "pass")})
        assert {name: one for name, one in states(results).items() if one != "untouched"} == {"trainer.py": "migrated"}
        assert dict(results["trainer.py"].unit)[results["derived.py"].path] == (
            f"its Derived inherits from Trainer of {project.root / 'trainer.py'}"
        )

    def test_an_override_of_one_of_two_is_enough(self, project: Project) -> None:
        files = {"trainer.py": TRAINER, "other.py": DERIVED.format("other", "pass")}
        assert (
            states(project({**files, "derived.py": DERIVED.format("update", "optimizer.step()")}))["trainer.py"]
            == "left"
        )

    @pytest.mark.parametrize(("number", "state"), [(23, "migrated"), (24, "left")])
    def test_there_may_be_too_many(self, project: Project, number: int, state: str) -> None:
        many = {f"derived{one}.py": DERIVED.format("other", "pass") for one in range(number)}
        results = project({"trainer.py": TRAINER, **many})
        assert states(results)["trainer.py"] == state
        message = "24 other files hold base classes and derived classes of this unit: not looked at"
        assert project.said(results) == ([f"trainer.py:1 AMP901 {message}"] if state == "left" else [])


RUNNER = """
    model: object
    optimizer: object

    def run(self, batches):
        model, optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")
        for x, y in batches:
            self.step(model, optimizer, x)

    def step(self, model, optimizer, x):
        loss = model(x).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
"""


class TestAttributes:
    @pytest.mark.parametrize(
        ("head", "tail", "is_attribute"),
        [
            ("@dataclass\nclass Runner:", "", True),
            ("@dataclass(frozen=False)\nclass Runner:", "", True),
            ("@dataclass(frozen=True)\nclass Runner:", "", False),
            ("@dataclass(slots=True)\nclass Runner:", "", False),
            ("@attr.s(slots=True)\nclass Runner:", "", False),
            ("@attr.define\nclass Runner:", "", False),
            ("class Runner(NamedTuple):", "", False),
            ("class Runner:\n    __slots__ = ()", "", False),
            ("class Runner:\n    __slots__: tuple = ()", "", False),
            ("class Runner:", "class Small(Runner):\n    __slots__ = ()\n", False),
            ("class Other:\n    __slots__ = ()\nclass Runner:", "", True),
        ],
    )
    def test_where_an_object_takes_the_scaler(self, project: Project, head: str, tail: str, is_attribute: bool) -> None:
        imports = (
            "import attr\nfrom dataclasses import dataclass\nfrom typing import NamedTuple\nfrom apex import amp\n"
        )
        output = project({"runner.py": imports + head + RUNNER + tail})["runner.py"].output
        assert (b"  self.scaler = torch.amp.GradScaler" in output) == is_attribute
        assert (b"  scaler = torch.amp.GradScaler" in output) != is_attribute

    @pytest.mark.parametrize(("slots", "state"), [("", "migrated"), ("    __slots__ = ('amp', 'model')\n", "left")])
    def test_in_place_of_a_handle_that_has_a_slot(self, project: Project, slots: str, state: str) -> None:
        files = {name: content.decode() for name, content in read_tree(ROOT / "handle_on_an_object" / "before").items()}
        head = "class DigitLearner:\n"
        files["src/learner.py"] = files["src/learner.py"].replace(head, head + slots)
        assert states(project(files))["src/learner.py"] == state


PLAIN_TRAINER = """import torch.nn.functional as F

class Trainer:
    def __init__(self, model, optimizer):
        self.model = model.cuda()
        self.optimizer = optimizer

    def step(self, x, y):
        loss = F.cross_entropy(self.model(x.cuda()), y.cuda())
        loss.backward()
        self.optimizer.step()
"""
PLAIN_SCRIPT = """import torch
from trainer import Trainer

model = torch.nn.Linear(3, 2)
trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1))
{0}
    trainer.step(torch.randn(4, 3), torch.randint(2, (4,)))
"""


class TestPrecisionOfOthers:
    def test_a_plain_loop_of_two_files_is_migrated(self, project: Project) -> None:
        results = project({"trainer.py": PLAIN_TRAINER, "main.py": PLAIN_SCRIPT.format("for _ in range(3):")})
        assert states(results) == {"main.py": "untouched", "trainer.py": "migrated"}

    def test_one_that_its_caller_runs_under_autocast_stays(self, project: Project) -> None:
        script = PLAIN_SCRIPT.format('with torch.autocast("cuda"):')
        results = project({"trainer.py": PLAIN_TRAINER, "main.py": script})
        assert states(results) == {"main.py": "untouched", "trainer.py": "untouched"}

    def test_one_that_is_given_a_half_model_stays(self, project: Project) -> None:
        script = PLAIN_SCRIPT.format("model.half()\nfor _ in range(3):")
        results = project({"trainer.py": PLAIN_TRAINER, "main.py": script})
        assert not any(result.form == PLAIN and result.changed for result in results.values())


@pytest.mark.parametrize("by_name", ['import_module("helper")', '__import__("helper")'])
def test_whoever_imports_by_a_name_in_quotes_gets_the_new_argument_or_nobody_does(tmp_path: Path, by_name: str) -> None:
    step = (
        "def step(loss, optimizer):\n    with amp.scale_loss(loss, optimizer) as scaled:\n        scaled.backward()\n"
    )
    train = SETUP + "for x, y in batches:\n    step(torch.nn.functional.mse_loss(model(x), y), optimizer)\n"
    (tmp_path / "helper.py").write_text(IMPORTS + step + "    optimizer.step()\n")
    (tmp_path / "train.py").write_text(IMPORTS + "from helper import step\n" + train)
    (tmp_path / "other.py").write_text(
        f"{IMPORTS}from importlib import import_module\nhelper = {by_name}\nstep = helper.step\n{train}"
    )
    forget()
    results = migrate_project([tmp_path])
    assert {result.status for result in results} == {"left"}, [result.findings for result in results]


def test_a_model_that_libcst_cannot_parse_stops_its_training_and_says_nothing_of_other_models(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(MODEL.format("One"))
    (tmp_path / "two.py").write_text(MODEL.format("Two") + "class Odd(metaclass=type, *[]): pass\n")
    (tmp_path / "train.py").write_text(TRAINING_OF_EITHER)
    results = {Path(result.path).name: result for result in migrate_project(tmp_path)}
    found = {name: (result.status, [one.code for one in result.findings]) for name, result in results.items()}
    assert found == {"one.py": ("untouched", []), "two.py": ("error", ["AMP991"]), "train.py": ("left", ["AMP901"])}


def test_a_bug_in_the_growth_of_a_unit_costs_no_other_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def leads_on(programs: Programs, unit: Unit, outcome: Outcome) -> bool:
        if any(file.name == "two.py" for file in unit.files):
            raise KeyError("nowhere")
        return False

    monkeypatch.setattr(Programs, "_leads_on", leads_on)
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(IMPORTS + SETUP + LOOP)
    found = {Path(result.path).name: result for result in migrate_project(tmp_path)}
    assert states(found) == {"one.py": "migrated", "two.py": "error"}
    assert [(one.code, one.message) for one in found["two.py"].findings] == [("AMP999", "KeyError: 'nowhere'")]


def test_a_model_with_tabs_and_spaces_is_read_and_not_written(tmp_path: Path) -> None:
    body_in_spaces = MODEL.format("Two").replace("    ", "\t").replace("\t\treturn", " " * 16 + "return")
    needs_float32 = body_in_spaces.replace("(x)\n", "(x).masked_fill(x == 0, -1e9)\n")
    assert needs_float32 != body_in_spaces
    found = []
    for body in (body_in_spaces, needs_float32):  # Python takes both, LibCST neither
        (tmp_path / "one.py").write_text(MODEL.format("One"))
        (tmp_path / "two.py").write_text(body)
        (tmp_path / "train.py").write_text(TRAINING_OF_EITHER)
        forget()
        results = {Path(result.path).name: result for result in migrate_project(tmp_path)}
        found.append({name: result.status for name, result in results.items()})
        assert results["two.py"].output == body.encode()
    assert found == [
        {"one.py": "untouched", "two.py": "untouched", "train.py": "migrated"},
        {"one.py": "untouched", "two.py": "error", "train.py": "left"},
    ]


MODEL = """import torch.nn as nn

class {0}(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 1)

    def forward(self, x):
        return self.body(x)
"""
TRAINING_OF_EITHER = """import sys

import torch
from one import One
from two import Two

model = (One() if sys.argv[1:] else Two()).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.randn(4, 3).cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


NETWORK = """import torch

class Network(torch.nn.Linear):
    def forward(self, x):
        scores = super().forward(x)
        out = torch.zeros(scores.shape).to(self.weight)
        out[scores > 0] = scores[scores > 0]
        return {0}
"""
UNDER_APEX = """import torch
from apex import amp
from network import Network

model = Network(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O2"{0})
"""
IN_FLOAT32 = """import torch
from network import Network

model = Network(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in batches:
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


class TestBesideAnotherForm:
    def test_a_file_changes_for_one_form_only(self, project: Project) -> None:
        layer = NETWORK.format("out + scores / (scores.abs().max(dim=1, keepdim=True)[0] + 1e-8)")
        files = {"network.py": layer, "pretrain.py": UNDER_APEX.format("") + LOOP, "probe.py": IN_FLOAT32}
        results = project(files)
        network = in_words(project.root / "network.py")
        assert states(results) == {"network.py": "migrated", "pretrain.py": "migrated", "probe.py": "left"}
        assert b"1e-8" in results["network.py"].output
        (finding,) = results["probe.py"].findings
        assert finding.code == "AMP901"
        assert finding.message == f"belongs together with {network} (passes Network on), which has another source form"

    def test_a_loop_in_float32_stays_with_what_is_left_under_apex(self, project: Project) -> None:
        layer = (
            NETWORK.format("out") + "\nfrom apex import amp\n\ndef later(make):\n    return amp.half_function(make())\n"
        )
        results = project({"network.py": layer, "probe.py": IN_FLOAT32})
        assert states(results) == {"network.py": "left", "probe.py": "left"}
        network = in_words(project.root / "network.py")
        (said,) = (one.message for one in results["probe.py"].findings)
        assert said == f"belongs together with {network} (passes Network on), which has another source form"

    @pytest.mark.parametrize("wish", ["# amp-migrate: ignore-file\n", ""])
    def test_a_loop_in_float32_stays_where_what_it_needs_does(self, project: Project, wish: str) -> None:
        files = {"network.py": wish + NETWORK.format("out"), "pretrain.py": UNDER_APEX.format("") + LOOP}
        results = project({**files, "probe.py": IN_FLOAT32})
        stays = "left" if wish else "migrated"
        assert states(results) == {"network.py": stays, "pretrain.py": stays, "probe.py": stays}
        network = in_words(project.root / "network.py")
        said = [f"belongs together with {network}, which stays as it is"] if wish else []
        assert [one.message for one in results["probe.py"].findings if one.code == "AMP901"] == said

    def test_nor_is_it_written_where_that_cannot_be(self, project: Project) -> None:
        files = {"network.py": NETWORK.format("out"), "pretrain.py": UNDER_APEX.format("") + LOOP}
        results = project({**files, "probe.py": IN_FLOAT32})
        (project.root / "network.py").write_text("# somebody else\n")
        outcome = {Path(one.path).name: one.status for one in written(results.values())}
        assert outcome == {"network.py": "error", "pretrain.py": "left", "probe.py": "left"}
        assert (project.root / "probe.py").read_text() == IN_FLOAT32

    def test_whoever_asks_for_it_alone_gets_what_it_needs(self, project: Project) -> None:
        files = {"network.py": NETWORK.format("out"), "pretrain.py": UNDER_APEX.format("") + LOOP}
        results = project({**files, "probe.py": IN_FLOAT32, "other.py": IN_FLOAT32})
        of_probe = of_touched(list(results.values()), {str(project.root / "probe.py")})
        assert [Path(one.path).name for one in of_probe] == ["network.py", "pretrain.py", "probe.py"]


def test_a_file_and_its_copy_are_two_files(tmp_path: Path) -> None:
    network = (
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.w = torch.nn.Linear(3, 2)\n\n    def forward(self, x):\n        z = self.w(x)\n"
        "        return z.masked_fill(z == 0, -1e9)\n"
    )
    script = (
        "import sys\nimport torch\nfrom a import Net as A\nfrom b import Net as B\n\n"
        "model = A().cuda() if len(sys.argv) > 1 else B().cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor x in []:\n    optimizer.zero_grad()\n"
        "    loss = model(x).mean()\n    loss.backward()\n    optimizer.step()\n"
    )
    write_tree(tmp_path, {"a.py": network.encode(), "b.py": network.encode(), "train.py": script.encode()})
    results = migrate_project([tmp_path])
    assert [result.status for result in results] == ["migrated"] * 3
    first, second, _ = results
    assert first.output == second.output and b".float()" in first.output


def test_a_helper_that_trains_for_a_base_class_is_migrated_where_a_derived_class_shows_the_gpu(tmp_path: Path) -> None:
    base = (
        "import torch\nfrom utils import update\n\n\nclass Base:\n    def __init__(self):\n"
        "        self.device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n\n"
        "    def learn(self, x):\n        loss = self.loss_of(x)\n        update(self.optimizer, loss)\n"
    )
    agent = (
        "import torch\nfrom base import Base\n\n\nclass Agent(Base):\n    def __init__(self):\n"
        "        super().__init__()\n        self.net = torch.nn.Linear(3, 1).to(self.device)\n"
        "        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)\n\n"
        "    def loss_of(self, x):\n        return torch.nn.functional.mse_loss(self.net(x), x[:, :1])\n"
    )
    files = {
        "base.py": base,
        "agent.py": agent,
        "utils.py": "def update(optimizer, loss):\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n",
        "train.py": "import torch\nfrom agent import Agent\n\nagent = Agent()\nagent.learn(torch.ones(4, 3).to(agent.device))\n",
    }
    write_tree(tmp_path, {name: text.encode() for name, text in files.items()})
    results = {Path(result.path).name: result for result in migrate_project([tmp_path])}
    assert b"scaler.step(optimizer)" in results["utils.py"].output
    assert b"update(self.optimizer, self.scaler, " in results["base.py"].output


_TRAINS_ITSELF = (
    "import torch\n\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.fc = torch.nn.Linear(3, 1)\n        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)\n\n"
    "    def observe(self, x):\n        self.optimizer.zero_grad()\n        self.fc(x).pow(2).mean().backward()\n"
    "        self.optimizer.step()\n"
)
_GIVES_PARTS = (
    "import torch\n\n\ndef get_model():\n    net = torch.nn.Linear(3, 1).cuda()\n"
    "    return net, torch.optim.SGD(net.parameters(), lr=0.1)\n"
)


@pytest.mark.parametrize(
    "name, module, script, at",
    [
        (
            "models/single.py",
            _TRAINS_ITSELF,
            "module = importlib.import_module('models.' + sys.argv[1])\nnet = module.Net().cuda()\n"
            "for x in [torch.ones(4, 3).cuda()]:\n    net.observe(x)\n",
            "single.py",
        ),
        (
            "parts.py",
            _GIVES_PARTS,
            "torch.cuda.set_device(0)\nmodule = importlib.import_module(sys.argv[1])\n"
            "net, optimizer = module.get_model()\n"
            "for x in [torch.ones(4, 3)]:\n    optimizer.zero_grad()\n    net(x).pow(2).mean().backward()\n"
            "    optimizer.step()\n",
            "train.py",
        ),
    ],
)
def test_a_training_by_what_is_imported_by_a_name_of_run_time_is_told(
    tmp_path: Path, name: str, module: str, script: str, at: str
) -> None:
    script = f"import importlib\nimport sys\nimport torch\n\n{script}"
    write_tree(tmp_path, {name: module.encode(), "train.py": script.encode(), ".git/config": b""})
    found = [(Path(one.path).name, one.code) for result in migrate_project([tmp_path]) for one in result.findings]
    assert found == [(at, "AMP973")]


def test_a_case_of_unittest_is_made_by_unittest(tmp_path: Path) -> None:
    case = (
        "import unittest\nimport torch\n\n\nclass NetTest(unittest.TestCase):\n    def test_step(self):\n"
        "        net = torch.nn.Linear(3, 1)\n        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "        net(torch.ones(4, 3)).mean().backward()  # on no device\n        optimizer.step()\n"
    )
    script = "import importlib\nimport sys\n\nnet = importlib.import_module(sys.argv[1]).Net().cuda()\n"
    write_tree(tmp_path, {"net_test.py": case.encode(), "train.py": script.encode(), ".git/config": b""})
    assert [result.findings for result in migrate_project([tmp_path])] == [(), ()]


@pytest.mark.parametrize(
    "helper, call",
    [
        ("def back(loss):\n    loss.backward()\n", "back(loss)\n    optimizer.step()\n"),
        ("def step(loss, optimizer):\n    loss.backward()\n    optimizer.step()\n", "step(loss, optimizer)\n"),
    ],
)
def test_a_helper_that_names_nothing_of_torch_trains(tmp_path: Path, helper: str, call: str) -> None:
    script = (
        "import torch\nfrom helper import *\n\nnet = torch.nn.Linear(3, 1).cuda()\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nfor x in [torch.ones(4, 3).cuda()]:\n"
        "    optimizer.zero_grad()\n    loss = torch.nn.functional.mse_loss(net(x), x[:, :1])\n"
    )
    write_tree(tmp_path, {"helper.py": helper.encode(), "train.py": f"{script}    {call}".encode()})
    results = {Path(result.path).name: result for result in migrate_project([tmp_path])}
    assert b"scaler.scale(loss).backward()" in results["helper.py"].output


def test_a_script_that_needs_a_file_with_apex_stays_with_it(project: Project) -> None:
    attack = (
        "from apex import amp\n\n\ndef attack(loss, optim):\n    with amp.scale_loss(loss, optim) as scaled:\n"
        "        scaled.backward()\n"
    )
    script = (
        f"{IMPORTS}import attacks\n\n\ndef main(opts):\n    model = torch.nn.Linear(3, 1).cuda()\n"
        "    optimizer = torch.optim.Adam(model.parameters())\n"
        '    model, optimizer = amp.initialize(model, optimizer, enabled=opts.fp16, opt_level="O2")\n'
        "    with torch.no_grad():\n        for _ in range(3):\n            print(model(torch.ones(2, 3).cuda()).sum().item())\n"
    )
    assert project.said(project({"attacks.py": attack, "evaluate.py": script})) == [
        "attacks.py:5 AMP901 losses are scaled here, but amp.initialize is not in sight",
        "evaluate.py:1 AMP901 belongs together with attacks.py, which stays as it is",
    ]
