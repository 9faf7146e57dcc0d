"""The curves of `verify` on the page of a repository: found beside it, and shown for the code that ran only."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from amp_migrate.cli import _commands
from amp_migrate.cli.verify import _options
from amp_migrate.verify.comparison import Comparison
from amp_migrate.verify.programs import existing_pair, migrated_pair
from tests.fixture import ROOT
from tests.test_notebooks import CELLS, notebook
from tests.test_verify_report import KINDS, comparison

pytest.importorskip("matplotlib")

SCRIPT = "import helpers\n" + (ROOT / "apex" / "accumulation_window" / "before.py").read_text()


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(SCRIPT)
    (tmp_path / "src" / "helpers.py").write_text("RATE = 0.1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(script: str, kind: str = "same", file: str = "run.json", **pair: str) -> None:
    """As if `verify` had run it just now."""
    if pair:
        programs = existing_pair(Path(pair["before"]), Path(pair["after"]), None, (), ())
    else:
        programs = migrated_pair(Path(script), (), (), _options(Path(script)))
    found = comparison(kind)
    sides = (
        dataclasses.replace(side, version=program.version)
        for side, program in zip((found.before, found.after), programs, strict=True)
    )
    before, after = sides
    run = dataclasses.replace(found, before=before, after=after, command=f"amp-migrate verify {script} --json {file}")
    Path(file).write_text(json.dumps(run.as_json(), indent=1))


def page(*args: str, name: str = "page.html") -> tuple[str, str]:
    result = CliRunner().invoke(_commands, ["migrate", *(args or ["."]), "--report", name])
    assert result.exit_code == 0, result.output
    return Path(name).read_text(), result.stderr


def test_curves_of_the_code_that_ran(project):
    ran("src/train.py")
    shown, _ = page()
    assert "verify: they train the same" in shown
    assert shown.count("<svg") == 4
    assert '<a href="#src/train.py">src/train.py</a>: same' in shown
    assert "amp-migrate verify src/train.py --json run.json" in shown


def test_from_any_folder(project, monkeypatch):
    ran("src/train.py", file="out.json")
    monkeypatch.chdir(project / "src")
    shown, _ = page("train.py", name="../page.html")
    assert shown.count("<svg") == 4


@pytest.mark.parametrize("changed", ["src/train.py", "src/helpers.py"])
def test_no_curves_of_other_code(project, changed):
    ran("src/train.py")
    with (project / changed).open("a") as file:
        file.write("# changed\n")
    shown, _ = page()
    assert "<svg" not in shown
    assert "verify: another version" in shown
    assert "ran another version" in shown
    assert "They train" not in shown


def test_no_curves_of_another_migration(project):
    ran("src/train.py")
    shown, _ = page(".", "--dtype", "bfloat16")
    assert "<svg" not in shown
    assert "ran another version" in shown


def test_the_settings_of_the_project_count_for_both(project):
    (project / "pyproject.toml").write_text('[tool.amp-migrate]\ndtype = "bfloat16"\n')
    ran("src/train.py")
    shown, _ = page()
    assert "bfloat16" in shown
    assert shown.count("<svg") == 4


def test_a_run_of_the_code_counts_more_than_an_old_one(project):
    ran("src/train.py", file="a.json")
    (project / "src" / "helpers.py").write_text("RATE = 0.2\n")
    ran("src/train.py", "different", file="b.json")
    shown, _ = page()
    assert "verify: they train differently" in shown
    assert "ran another version" not in shown


def test_a_migration_by_hand_is_not_ours(project):
    (project / "new.py").write_text(SCRIPT + "# by hand\n")
    ran("", before="src/train.py", after="new.py")
    assert "<svg" not in page()[0]


def test_notebook(project):
    (project / "train.ipynb").write_text(notebook(CELLS))
    ran("train.ipynb")
    shown, _ = page()
    assert '<a href="#train.ipynb">train.ipynb</a>: same' in shown
    data = json.loads((project / "train.ipynb").read_text())
    data["cells"][1]["outputs"] = []  # run once more
    (project / "train.ipynb").write_text(json.dumps(data))
    assert page()[0].count("<svg") == 4


def test_other_files_beside_the_page(project):
    (project / "data.json").write_text('{"tool": "other"}')
    (project / "list.json").write_text("[1]")
    (project / "old.json").write_text('{"tool": "amp-migrate verify", "version": 0}')
    (project / "cut.json").write_text('{"tool": "amp-migrate verify", "version": 1, "verdict"')
    (project / "folder.json").mkdir()
    shown, said = page()
    assert [line.split()[0] for line in said.splitlines() if "can be read" in line] == ["cut.json", "old.json"]
    assert "No run of <code>amp-migrate verify</code> is shown here." in shown


def test_what_a_result_says_is_text(project):
    ran("src/train.py")
    data = json.loads(Path("run.json").read_text())
    data["reason"] = data["command"] = "<script>alert(1)</script>"
    Path("run.json").write_text(json.dumps(data, indent=1))
    shown, _ = page()
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), '"><script>'),
        (("sections", 0, "lines", 0, "status"), '"><script>'),
        (("runs", "original", "backwards", -1, "loss"), "<script>"),
        (("runs", "original", "steps"), 7),
        (("before", "version", "files"), ["train.py"]),
    ],
)
def test_a_result_that_somebody_has_edited(project, path, value):
    ran("src/train.py")
    data = json.loads(Path("run.json").read_text())
    *above, last = path
    place = data
    for key in above:
        place = place[key]
    place[last] = value
    Path("run.json").write_text(json.dumps(data, indent=1))
    shown, said = page()
    assert "<script" not in shown
    assert "run.json is no result" in said or "&lt;script&gt;" in shown


@pytest.mark.parametrize("kind", KINDS)
def test_json_keeps_everything(kind):
    one = comparison(kind)
    written = json.dumps(one.as_json(), allow_nan=False)
    again = Comparison.of(json.loads(written))
    assert repr(again) == repr(one)  # a NaN is not equal to itself


def test_json_keeps_infinite_losses_apart():
    one = comparison("nan")
    records = {name: dataclasses.replace(record, backwards=list(record.backwards)) for name, record in one.runs.items()}
    last = records["original"].backwards[-1]
    records["original"].backwards[-1] = dataclasses.replace(last, loss=math.inf)
    written = json.dumps(dataclasses.replace(one, runs=records).as_json(), allow_nan=False)
    losses = [backward.loss for backward in Comparison.of(json.loads(written)).runs["original"].backwards]
    assert math.isinf(losses[-1]) and math.isnan(losses[-2])
