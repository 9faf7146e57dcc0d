"""`python -m tests.gpu` on the CPU, with tiny models: what it writes, what it refuses, and its scripts."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys

import pytest
import torch

from tests.gpu.__main__ import RESULTS, main
from tests.gpu.fixtures import FixtureVerdict
from tests.gpu.machine import ROOT, Machine
from tests.gpu.models import MODELS, SCRIPTS, VARIANTS, ModelResult, expectations, migrate
from tests.gpu.results import Results, write
from tests.gpu.timing import Timing, ratio

ONLY = ("apex/bce_sigmoid", "apex/refuse_closure", "bert_base")
MACHINE = Machine("2026-11-21", "NVIDIA H200", "580.1", "12.8", 91000, "2.13.0", "c0ffee", False, "highest")
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What one run has written: the page, and the data."""
    folder = tmp_path_factory.mktemp("results")
    command = [sys.executable, "-m", "tests.gpu", "--device", "cpu", "--output", str(folder), "--only", *ONLY]
    run = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    page, data = sorted(folder.iterdir(), key=lambda path: path.suffix, reverse=True)
    assert (page.name, data.name) == (f"{data.stem}.md", f"{page.stem}.json")
    return page.read_text(), json.loads(data.read_text())


def test_machine(written):
    page, data = written
    assert data["machine"]["device"] == "cpu"
    assert data["machine"]["torch"] == torch.__version__
    assert data["machine"].keys() == {field.name for field in dataclasses.fields(Machine)}
    assert page.startswith(f"# {data['machine']['date']}, cpu\n")
    assert (ROOT / ".git").exists() == bool(re.fullmatch("[0-9a-f]{40}", data["machine"]["commit"] or ""))
    assert "no speed and no memory" in page


def test_verdicts(written):
    page, data = written
    assert [(one["fixture"], one["as_expected"]) for one in data["fixtures"]] == [(name, True) for name in ONLY[:2]]
    assert [(one["model"], one["verdict"]) for one in data["models"]] == [("bert_base", "same")]
    assert all(f"| {name} | same | " in page for name in ONLY)


def test_times_are_measured(written):
    page, data = written
    timings = data["models"][0]["timings"]
    assert tuple(timings) == VARIANTS
    assert all(0 < seconds < 10 for timing in timings.values() for one in timing["rounds"] for seconds in one)
    assert {tuple(map(len, timing["rounds"])) for timing in timings.values()} == {(3, 3, 3)}
    medians = {name: [statistics.median(one) for one in timing["rounds"]] for name, timing in timings.items()}
    for found, (first, second) in zip(data["expectations"], [VARIANTS[1:], VARIANTS[:2]], strict=True):
        ratios = sorted(one / other for one, other in zip(medians[first], medians[second], strict=True))
        assert list(found["found"].values()) == [ratios[1], ratios[0], ratios[2]]
        assert f"{ratios[1]:.3f} ({ratios[0]:.3f} to {ratios[2]:.3f})" in page


def test_refuses_without_a_gpu(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["--output", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err == "torch finds no GPU here: nothing was run or written\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("folder", [[], ["--output", str(RESULTS / "more")]])
def test_no_result_of_a_cpu_in_docs(capsys, folder):
    before = sorted(RESULTS.rglob("*"))
    assert main(["--device", "cpu", "--only", ONLY[0], *folder]) == 2
    assert "do not belong in docs/results" in capsys.readouterr().err
    assert sorted(RESULTS.rglob("*")) == before


def test_unknown_name(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--only", "apex/bce_sigmoid", "resnet"])
    assert "no fixture and no model: resnet" in capsys.readouterr().err


def test_nothing_is_overwritten(tmp_path):
    results = Results(MACHINE, [], [], {})
    first = write(results, tmp_path)
    first[1].unlink()
    first[0].write_text("mine")
    second = write(results, tmp_path)
    assert [path.name for path in first] == ["2026-11-21-nvidia-h200.md", "2026-11-21-nvidia-h200.json"]
    assert [path.name for path in second] == ["2026-11-21-nvidia-h200-2.md", "2026-11-21-nvidia-h200-2.json"]
    assert first[0].read_text() == "mine"


def test_the_unexpected_comes_first(tmp_path):
    fixtures = [
        FixtureVerdict("apex/good", "same", "same", True, "", 1.0),
        FixtureVerdict("apex/bad", "different", "same", False, "first loss", 1.0),
    ]
    results = Results(MACHINE, fixtures, [], {"fixtures": 2.0})
    page = write(results, tmp_path)[0].read_text()
    assert not results.all_verdicts_expected
    assert "1 of 2 have" in page
    assert page.index("**different: first loss**") < page.index("apex/good")


@pytest.mark.parametrize(
    "migrated, fp32, met",
    [(1.0, 2.0, [True, True]), (1.015, 2.0, [True, True]), (1.1, 2.0, [False, True]), (1.0, 1.2, [True, False])],
)
def test_expected_against_found(migrated, fp32, met):
    """Against a handwritten script of 1 s, for the transformer, which should gain much."""
    seconds = {"fp32": fp32, "migrated": migrated, "handwritten": 1.0}
    timings = {name: Timing([[one, one, 9.0]] * 2) for name, one in seconds.items()}  # 9 s: noise in one step
    found = expectations(ModelResult("bert_base", "same", "", timings))
    assert [one.met for one in found] == met
    assert found[0].found.median == pytest.approx(migrated)


def test_the_small_network_gains_nothing():
    timings = {name: Timing([[one]]) for name, one in {"fp32": 1.2, "migrated": 1.0, "handwritten": 1.0}.items()}
    assert [one.met for one in expectations(ModelResult("feed_forward", "same", "", timings))] == [True, False]


def test_ratio_is_taken_round_by_round():
    """A round in which the machine was slow slows both: the ratio stays."""
    found = ratio(Timing([[2.0, 2.0], [20.0, 20.0]]), Timing([[1.0, 1.0], [10.0, 10.0]]))
    assert (found.least, found.most) == (2.0, 2.0)


@pytest.mark.parametrize(
    "name, least, most", [("feed_forward", 0.6e6, 0.7e6), ("unet", 7.65e6, 7.8e6), ("bert_base", 108e6, 111e6)]
)
def test_full_sizes(name, least, most):
    path = SCRIPTS / name / "network.py"
    spec = importlib.util.spec_from_file_location(f"network_of_{name}", path)
    network = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(network)
    with torch.device("meta"):
        model = network.build_model(network.parse_args([]))
    assert least < sum(weight.numel() for weight in model.parameters()) < most


@every_model
def test_migrated_is_the_handwritten_script(model):
    """Up to the spelling of autocast, whose dtype on CUDA is float16 where none is given."""
    migrated = (
        migrate(model).decode().replace('torch.amp.autocast("cuda")', 'torch.autocast("cuda", dtype=torch.float16)')
    )
    handwritten = (SCRIPTS / model.name / "handwritten.py").read_text()
    assert _without_docstring(migrated) == _without_docstring(handwritten)


@every_model
def test_fp32_is_the_original_without_amp(model):
    """No line of the float32 script is missing in the handwritten one, but for backward and the optimizer's step."""
    lines = {
        variant: {line.strip() for line in (SCRIPTS / model.name / f"{variant}.py").read_text().splitlines()[1:]}
        for variant in ("fp32", "handwritten")
    }
    assert lines["fp32"] - lines["handwritten"] == {"loss.backward()", "optimizer.step()"}


def _without_docstring(source: str) -> str:
    tree = ast.parse(source)
    return ast.unparse(tree.body[1:])
