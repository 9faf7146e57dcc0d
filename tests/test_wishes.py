"""What users ask for by pyproject.toml, by comments in the code, and by options about files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from amp_migrate.cli import _commands
from amp_migrate.files.pragmas import Pragma, pragmas
from tests.fixture import ROOT

SCRIPT = """\
import torch
from apex import amp

model = torch.nn.Linear(6, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x, y in loader:
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""
MIGRATED = """\
import torch

model = torch.nn.Linear(6, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    with torch.amp.autocast("cuda"):
        loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
PLAIN = (ROOT / "plain" / "cnn_clip" / "before.py").read_text()
LEFT = (ROOT / "fp16_utils" / "closure" / "before.py").read_text()


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, content: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(content)


def configure(*lines: str) -> None:
    write("pyproject.toml", "\n".join(["[tool.amp-migrate]", *lines, ""]))


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(_commands, ["migrate", *args], input=stdin)


# -- pyproject.toml -----------------------------------------------------------------------------------------


def test_api_of_the_project_and_of_the_command_line(project):
    write("train.py", SCRIPT)
    configure('api = "torch.cuda.amp"')
    assert "torch.cuda.amp.GradScaler()" in run(".").stdout
    assert 'torch.amp.GradScaler("cuda")' in run(".", "--api", "torch.amp").stdout


@pytest.mark.parametrize(
    ("torch", "spelling"), [("1.13", "torch.cuda.amp."), ("2.3", "torch.amp."), ("2.3.1", "torch.amp.")]
)
def test_target_torch(project, torch, spelling):
    write("train.py", SCRIPT)
    write("requirements.txt", "torch==2.0\n")
    configure(f'target-torch = "{torch}"')
    assert f"+scaler = {spelling}GradScaler" in run("train.py").stdout


def test_dtype(project):
    write("train.py", SCRIPT)
    configure('dtype = "bfloat16"')
    assert "GradScaler" not in run(".").stdout
    assert "GradScaler" in run(".", "--dtype", "float16").stdout


def test_select_and_ignore(project):
    write("train.py", SCRIPT)
    write("plain.py", PLAIN)
    configure('select = ["AMP050"]')
    assert "b/train.py" not in run(".").stdout
    assert "b/train.py" in run(".", "--select", "AMP010").stdout
    configure('ignore = ["AMP050"]')
    assert "b/plain.py" not in run(".").stdout


def test_exclude_holds_for_named_files_too(project):
    for path in ("third_party/train.py", "lib/old/train.py", "train.py"):
        write(path, SCRIPT)
    configure('exclude = ["third_party", "lib/*"]')
    assert "1 file would be migrated." in run(".").stderr
    assert run("third_party/train.py", "lib/old/train.py").stdout == ""
    assert run("-", "--stdin-filename", "lib/old/train.py", stdin=SCRIPT).stdout == ""


def test_per_file_ignores(project):
    for path in ("legacy/train.py", "train.py"):
        write(path, PLAIN)
    write("legacy/closure.py", LEFT)
    configure('per-file-ignores = {"legacy/*" = ["AMP050", "AMP913"]}')
    result = run(".")
    assert "legacy" not in result.stdout
    assert "b/train.py" in result.stdout
    assert "AMP913" not in result.stderr
    assert "findings ignored, as asked." in result.stderr


def test_the_nearest_configuration_above_all_paths_counts(project):
    write("a/train.py", SCRIPT)
    write("b/train.py", SCRIPT)
    configure('api = "torch.cuda.amp"')
    write("a/pyproject.toml", '[tool.amp-migrate]\napi = "torch.amp"\n')
    write("b/pyproject.toml", "[project]\nname = 'b'\n")
    assert "torch.amp.GradScaler" in run("a/train.py").stdout
    assert "torch.cuda.amp.GradScaler" in run("b/train.py").stdout
    assert run("a", "b").stdout.count("+scaler = torch.cuda.amp.GradScaler()") == 2


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('selct = ["AMP010"]', "has no key 'selct'; there are select, ignore"),
        ('select = "AMP010"', "select of [tool.amp-migrate] is a list of texts"),
        ('ignore = ["AMP777"]', "AMP777 is no code"),
        ('api = "apex"', "api of [tool.amp-migrate] is one of torch.cuda.amp, torch.amp"),
        ("target-torch = 2.1", "is the oldest torch that the project supports"),
        ('per-file-ignores = ["AMP050"]', 'is written {"legacy/*" = ["AMP050"]}'),
        ('operations = ["pkg.norm"]', 'is written {"mypkg.fast_norm" = "single"}'),
        (
            'operations = {"pkg.norm" = "float32"}',
            "pkg.norm in operations of [tool.amp-migrate] is one of same, promoted",
        ),
        ("api = ", "pyproject.toml: Invalid value"),
    ],
)
def test_mistakes_in_the_configuration(project, line, says):
    write("train.py", SCRIPT)
    configure(line)
    result = run(".")
    assert (result.exit_code, says in result.stderr) == (2, True), result.stderr
    assert str(project / "pyproject.toml") in result.stderr


# -- comments -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("comment", ["# amp-migrate: ignore-file", "#amp-migrate:ignore-file[AMP010]"])
def test_a_file_that_asks_to_be_left_alone(project, comment):
    write("train.py", f"{comment}\n{SCRIPT}")
    result = run(".", "--check")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "1 file left alone" in result.stderr
    assert "1 finding ignored" in result.stderr


def test_a_block_that_asks_to_be_left_alone(project):
    loop = "for x, y in loader:"
    write("train.py", SCRIPT.replace(loop, f"{loop}  # amp-migrate: ignore[AMP010]"))
    assert run(".", "--check").exit_code == 0
    write("train.py", SCRIPT.replace(loop, f"{loop}  # amp-migrate: ignore[AMP050]"))
    assert run(".", "--check").exit_code == 1


def test_the_whole_unit_stays(project):
    for path in sorted((ROOT / "units" / "setup_in_another_file" / "before").glob("*.py")):
        write(path.name, path.read_text())
    write("build.py", "# amp-migrate: ignore-file\n" + Path("build.py").read_text())
    assert run(".").stdout == ""


def test_a_finding_that_is_not_wanted(project):
    source = "\n".join(
        f"{line}  # amp-migrate: ignore[AMP913]" if ".step(closure)" in line else line for line in LEFT.split("\n")
    )
    assert source != LEFT
    write("closure.py", source)
    result = run(".")
    assert "AMP913" not in result.stderr
    assert "1 finding ignored, as asked." in result.stderr


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (b"x = 1  # amp-migrate: ignore\n", [Pragma(1, 1, ("AMP",))]),
        (b"f(\n    1,  # amp-migrate: ignore[AMP104, amp1]\n)\n", [Pragma(1, 3, ("AMP104", "AMP1"))]),
        (b"for x in y:  # amp-migrate: ignore[AMP050]\n    f(x)\n    g(x)\nz\n", [Pragma(1, 3, ("AMP050",))]),
        (b"for x in y:\n    f(x)  # amp-migrate: ignore[AMP050]\n    g(x)\n", [Pragma(2, 2, ("AMP050",))]),
        (b"text = '# amp-migrate: ignore'\n", []),
        (b"# amp-migrate: ignore-file[AMP4]\nx = 1\ny = 2\n", [Pragma(1, 3, ("AMP4",))]),
        (b"def f(:  # amp-migrate: ignore\n", []),
    ],
)
def test_lines_that_a_comment_is_for(source, expected):
    assert pragmas(source) == expected


def test_a_comment_with_empty_brackets_is_for_nothing(project):
    write("train.py", f"# amp-migrate: ignore-file[]\n{SCRIPT}")
    assert run(".", "--check").exit_code == 1


# -- files --------------------------------------------------------------------------------------------------


def test_patch(project):
    write("train.py", SCRIPT)
    result = run(".", "--patch", "native.patch", "--api", "torch.amp")
    assert (result.exit_code, result.stdout) == (0, "")
    subprocess.run(["git", "apply", "native.patch"], check=True)
    assert Path("train.py").read_text() == MIGRATED


def test_patch_of_what_is_written(project):
    write("train.py", SCRIPT)
    run("train.py", "--patch", "native.patch", "--write", "--api", "torch.amp")
    assert Path("train.py").read_text() == MIGRATED
    subprocess.run(["git", "apply", "-R", "native.patch"], check=True)
    assert Path("train.py").read_text() == SCRIPT


def test_patch_beside_a_report(project):
    write("train.py", SCRIPT)
    assert run(".", "--patch", "native.patch", "--output-format", "json").stdout.startswith("{")
    assert Path("native.patch").read_text().startswith("diff --git a/train.py")


def test_standard_input_has_a_place(project):
    files = {path.name: path.read_text() for path in (ROOT / "units" / "setup_in_another_file" / "before").glob("*.py")}
    for name, content in files.items():
        write(f"pkg/{name}", content)
    alone = run("-", stdin=files["main.py"])
    assert "belongs together" not in alone.stderr
    placed = run("-", "--stdin-filename", "pkg/main.py", stdin=files["main.py"])
    assert "AMP901 belongs together with pkg/build.py, which was not given" in placed.stderr
    write("train.py", SCRIPT)
    written = run("-", "--write", "--stdin-filename", "other.py", "--api", "torch.amp", stdin=SCRIPT)
    assert written.stdout == MIGRATED
    assert not Path("other.py").exists()
    assert run("train.py", "--stdin-filename", "x.py").exit_code == 2


def commit(message: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "add", "-A"], check=True)
    subprocess.run(["git", *identity, "commit", "-qm", message], check=True)


def test_since(project):
    for name in ("old.py", "changed.py"):
        write(name, SCRIPT)
    for path in (ROOT / "units" / "setup_in_another_file" / "before").glob("*.py"):
        write(f"unit/{path.name}", path.read_text())
    write("requirements.txt", "apex\n")
    commit("first")
    subprocess.run(["git", "branch", "base"], check=True)
    write("changed.py", SCRIPT + "\nprint('done')\n")
    commit("second")
    write("unit/build.py", Path("unit/build.py").read_text() + "\n# a remark\n")
    write("new.py", SCRIPT)
    result = run(".", "--since", "base")
    assert [
        line[len("diff --git a/") :].split()[0] for line in result.stdout.splitlines() if line.startswith("diff")
    ] == [
        "changed.py",
        "new.py",
        "unit/build.py",
        "unit/main.py",
    ]
    assert "AMP130" not in result.stderr
    write("requirements.txt", "apex\ntorch\n")
    assert "AMP130" in run(".", "--since", "base").stderr


def test_since_counts_from_where_the_branch_left(project):
    write("train.py", SCRIPT)
    commit("first")
    subprocess.run(["git", "checkout", "-qb", "feature"], check=True)
    write("feature.py", SCRIPT)
    commit("feature")
    subprocess.run(["git", "checkout", "-q", "-"], check=True)
    write("train.py", SCRIPT + "\n# main went on\n")
    commit("main goes on")
    main = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run(["git", "checkout", "-q", "feature"], check=True)
    diff = run(".", "--since", main).stdout
    assert "b/feature.py" in diff
    assert "b/train.py" not in diff


@pytest.mark.parametrize("revision", ["nowhere", "--output=x", ""])
def test_since_an_unknown_revision(project, revision):
    write("train.py", SCRIPT)
    commit("first")
    result = run(".", f"--since={revision}")
    assert (result.exit_code, "--since" in result.stderr) == (2, True)
    assert not os.path.exists("x")


def test_since_outside_of_a_repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    write("train.py", SCRIPT)
    result = run(".", "--since", "HEAD")
    assert (result.exit_code, "not a git repository" in result.stderr) == (2, True)


# -- interactive --------------------------------------------------------------------------------------------


def test_units_are_written_as_they_are_chosen(project):
    for name in ("a.py", "b.py", "c.py", "d.py"):
        write(name, SCRIPT)
    result = run(".", "--interactive", "--api", "torch.amp", stdin="y\nn\ne\ny\nq\n")
    assert result.exit_code == 0, result.output
    assert [Path(name).read_text() == MIGRATED for name in ("a.py", "b.py", "c.py", "d.py")] == [
        True,
        False,
        True,
        False,
    ]
    assert "# AMP010: apex.amp" in result.stderr
    assert "2 files migrated, 2 files left alone" in result.stderr


def test_a_unit_is_one_question(project):
    for path in (ROOT / "units" / "setup_in_another_file" / "before").glob("*.py"):
        write(path.name, path.read_text())
    result = run(".", "--interactive", stdin="y\n")
    assert "one unit of 2 files" in result.stderr
    assert "2 files migrated" in result.stderr


def test_an_end_of_the_answers_writes_nothing_more(project):
    for name in ("a.py", "b.py"):
        write(name, SCRIPT)
    result = run(".", "--interactive", stdin="y\n")
    assert (result.exit_code, "interrupted" in result.stderr) == (130, True)
    assert [Path(name).read_text() for name in ("a.py", "b.py")] == [SCRIPT, SCRIPT]


@pytest.mark.parametrize("args", [["--check"], ["-"]])
def test_nothing_to_ask(project, args):
    write("a.py", SCRIPT)
    assert run("a.py", "--interactive", *args).exit_code == 2


# -- partial ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_stays_is_marked(project, end):
    write("train.py", SCRIPT)
    Path("closure.py").write_bytes(LEFT.replace("\n", end).encode())
    result = run(".", "--partial", "--write", "--api", "torch.amp")
    assert Path("train.py").read_text() == MIGRATED
    lines = Path("closure.py").read_bytes().decode().split(end)
    (number,) = [number for number, line in enumerate(lines) if "# amp-migrate: AMP913 " in line]
    assert lines[number].strip() == "# amp-migrate: AMP913 optimizer.step(closure) gives the optimizer a closure"
    assert lines[number + 1].strip() == "print(optimizer.step(closure))"
    assert end.join(lines[:number] + lines[number + 1 :]).encode() == LEFT.replace("\n", end).encode()
    assert "1 file migrated, 1 file left alone" in result.stderr
    assert run(".", "--partial", "--check").exit_code == 0


def test_a_mark_stands_above_the_whole_statement(project):
    call = "optimizer.step(closure)"
    write("closure.py", LEFT.replace(call, "optimizer.step(\n        closure=closure,\n    )"))
    run(".", "--partial", "--write")
    lines = Path("closure.py").read_text().split("\n")
    (number,) = [number for number, line in enumerate(lines) if "# amp-migrate: AMP913 " in line]
    assert lines[number + 1].strip() == "print(optimizer.step("
