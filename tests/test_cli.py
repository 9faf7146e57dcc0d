"""The command, run as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = b"""\
import torch
from apex import amp

model = torch.nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x, y in loader:
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""
PLAIN = b"import torch\n"


def run(*args: str | bytes, cwd: Path, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), **env}
    command = [sys.executable, "-m", "amp_migrate", *args]
    return subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, env=environment, check=False)


def git(*args: str, cwd: Path) -> None:
    subprocess.run(["git", *args], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path) -> Path:
    git("init", cwd=tmp_path)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/train.py").write_bytes(SCRIPT)
    (tmp_path / "pkg/plain.py").write_bytes(PLAIN)
    return tmp_path


def test_shows_a_diff_and_writes_nothing(repository):
    result = run(".", cwd=repository)
    assert result.returncode == 0
    assert result.stdout.startswith(
        b"diff --git a/pkg/train.py b/pkg/train.py\n--- a/pkg/train.py\n+++ b/pkg/train.py\n@@ "
    )
    assert b"\x1b[" not in result.stdout
    assert b"1 file would be migrated" in result.stderr
    assert (repository / "pkg/train.py").read_bytes() == SCRIPT


@pytest.mark.parametrize("cwd", [".", "pkg"])
def test_the_diff_is_what_write_writes(repository, cwd):
    patch = run(".", cwd=repository / cwd).stdout
    git_apply = ["git", "apply", "--check", "-"]
    assert subprocess.run(git_apply, cwd=repository / cwd, input=patch, check=False).returncode == 0
    subprocess.run(["git", "apply", "-"], cwd=repository / cwd, input=patch, check=True)
    applied = (repository / "pkg/train.py").read_bytes()
    (repository / "pkg/train.py").write_bytes(SCRIPT)
    assert run(".", "--write", cwd=repository).returncode == 0
    assert (repository / "pkg/train.py").read_bytes() == applied != SCRIPT


@pytest.mark.parametrize(
    "source",
    [
        SCRIPT.replace(b"\n", b"\r\n"),
        SCRIPT[:-1],
        b"\xef\xbb\xbf" + SCRIPT,
        b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + SCRIPT,
        SCRIPT.replace(b"    ", b"\t"),
        SCRIPT.replace(b"import torch\n", b"import torch\n\x0c\n"),
    ],
    ids=["crlf", "no final newline", "bom", "latin-1", "tabs", "form feed"],
)
def test_patches_apply_to_every_kind_of_file(repository, source):
    path = repository / "pkg/train.py"
    path.write_bytes(source)
    patch = run("pkg/train.py", cwd=repository).stdout
    subprocess.run(["git", "apply", "-"], cwd=repository, input=patch, check=True)
    applied = path.read_bytes()
    path.write_bytes(source)
    run("pkg/train.py", "--write", cwd=repository)
    assert path.read_bytes() == applied != source
    assert (b"\r\n" in source) == (b"\r\n" in applied)
    assert applied.endswith(b"\n") == source.endswith(b"\n")


def test_second_write_changes_nothing(repository):
    run(".", "--write", cwd=repository)
    written = (repository / "pkg/train.py").read_bytes()
    result = run(".", "--write", cwd=repository)
    assert (result.returncode, result.stdout) == (0, b"")
    assert (repository / "pkg/train.py").read_bytes() == written


def test_check(repository):
    result = run("--check", ".", cwd=repository)
    assert result.returncode == 1
    assert (repository / "pkg/train.py").read_bytes() == SCRIPT
    assert run("--check", "pkg/plain.py", cwd=repository).returncode == 0


def test_check_and_write_exclude_each_other(repository):
    assert run("--check", "--write", ".", cwd=repository).returncode == 2


def test_standard_input(tmp_path):
    shown = run("-", cwd=tmp_path, stdin=SCRIPT)
    assert shown.returncode == 0
    assert shown.stdout.startswith(b"diff --git a/")
    written = run("-", "--write", cwd=tmp_path, stdin=SCRIPT)
    assert b"scaler.scale(loss).backward()" in written.stdout
    assert not written.stdout.startswith(b"diff")


def test_a_bad_file_does_not_stop_the_others(repository):
    (repository / "pkg/a_broken.py").write_bytes(b"from apex import amp\nprint 'amp'\n")
    (repository / "pkg/b_bytes.py").write_bytes(b"from apex import amp\nx = '\xff'\n")
    result = run(".", "--write", cwd=repository)
    assert result.returncode == 2
    assert b"pkg/a_broken.py:2: AMP991 this is a Python 2 print statement" in result.stderr
    assert b"pkg/b_bytes.py:2: AMP990" in result.stderr
    assert b"Traceback" not in result.stderr
    assert (repository / "pkg/train.py").read_bytes() != SCRIPT
    assert (repository / "pkg/a_broken.py").read_bytes() == b"from apex import amp\nprint 'amp'\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"from apex import amp\nx = (\n", b":2: AMP991"),
        (b"from apex import amp\nx.cuda(async=True)\n", b":2: AMP991 cuda(async=True)"),
        (b"from apex import amp\nif 1:\n\tx\n        y\n", b":4: AMP991 tabs and spaces"),
        (b"# coding: nonsense\nfrom apex import amp\n", b":1: AMP990"),
    ],
)
def test_unreadable_files_are_named_and_left(tmp_path, source, message):
    path = tmp_path / "train.py"
    path.write_bytes(source)
    result = run("train.py", "--write", cwd=tmp_path)
    assert result.returncode == 2
    assert b"train.py" + message in result.stderr
    assert b"Traceback" not in result.stderr
    assert path.read_bytes() == source


def test_missing_path(tmp_path):
    result = run("nowhere.py", cwd=tmp_path)
    assert result.returncode == 2
    assert b"nowhere.py" in result.stderr
    assert b"Traceback" not in result.stderr


def test_findings_name_place_reason_and_remedy(tmp_path):
    (tmp_path / "helper.py").write_bytes(b"from apex import amp\n\n\ndef save():\n    return amp.state_dict()\n")
    result = run("helper.py", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, b"")
    lines = result.stderr.decode().splitlines()
    assert lines[0].startswith("helper.py:5: AMP901 ")
    assert lines[1:3] == ["    5 |     return amp.state_dict()", "      |     ^^^^^^^^^^^^^^^^^^^^^^^"]
    assert lines[3].strip().startswith("why:")
    assert lines[4].strip().startswith("do:")


def test_ignored_files_and_environments_are_skipped(repository):
    (repository / ".gitignore").write_bytes(b"ignored.py\n")
    (repository / "ignored.py").write_bytes(SCRIPT)
    (repository / "env/lib").mkdir(parents=True)
    (repository / "env/pyvenv.cfg").write_bytes(b"")
    (repository / "env/lib/train.py").write_bytes(SCRIPT)
    result = run(".", cwd=repository)
    assert result.stdout.count(b"+++ b/") == 1
    assert b"ignored" not in result.stdout
    assert run("ignored.py", cwd=repository).stdout.startswith(b"diff --git a/ignored.py")


def test_mode_and_link_survive(tmp_path):
    real = tmp_path / "real.py"
    real.write_bytes(SCRIPT)
    real.chmod(0o755)
    link = tmp_path / "link.py"
    link.symlink_to("real.py")
    assert run("link.py", "--write", cwd=tmp_path).returncode == 0
    assert link.is_symlink()
    assert real.read_bytes() != SCRIPT
    assert real.stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.py", "real.py"]


def test_options_reach_the_output(tmp_path):
    (tmp_path / "train.py").write_bytes(SCRIPT)
    assert b"torch.cuda.amp.GradScaler()" in run("train.py", "--api", "torch.cuda.amp", cwd=tmp_path).stdout
    bfloat16 = run("train.py", "--dtype", "bfloat16", cwd=tmp_path).stdout
    assert b"dtype=torch.bfloat16" in bfloat16
    assert b"scaler.step" not in bfloat16


def test_the_declared_torch_decides_the_spelling(tmp_path):
    (tmp_path / "train.py").write_bytes(SCRIPT)
    (tmp_path / "requirements.txt").write_bytes(b"torch==1.13\n")
    assert b"torch.cuda.amp.GradScaler()" in run("train.py", cwd=tmp_path).stdout
    (tmp_path / "requirements.txt").write_bytes(b"torch>=2.4\n")
    assert b'torch.amp.GradScaler("cuda")' in run("train.py", cwd=tmp_path).stdout


def test_a_torch_without_native_amp_is_said(tmp_path):
    (tmp_path / "train.py").write_bytes(SCRIPT)
    (tmp_path / "requirements.txt").write_bytes(b"numpy\ntorch==1.4.0  # as in the paper\n")
    assert b"requirements.txt:2: AMP133 asks for `torch==1.4.0`" in run("train.py", cwd=tmp_path).stderr
    assert b": AMP133" not in run("train.py", "--ignore", "AMP133", cwd=tmp_path).stderr
    (tmp_path / "train.py").write_bytes(b"import torch\n")
    assert b"AMP133" not in run("train.py", cwd=tmp_path).stderr


def test_quiet_and_verbose(repository):
    assert run(".", "--quiet", cwd=repository).stderr == b""
    assert b"pkg/plain.py" in run(".", "-v", cwd=repository).stderr
    assert b"scaler" in run("pkg/train.py", "-vv", cwd=repository).stderr


def test_version_and_help(tmp_path):
    assert run("--version", cwd=tmp_path).stdout.startswith(b"amp-migrate")
    said = run("--help", cwd=tmp_path).stdout
    assert b"--write" in said
    assert b"amp-migrate verify" in said and b"amp-migrate checkpoint" in said


@pytest.mark.parametrize(
    ("arguments", "migrates"),
    [(["--ignore", "AMP010"], False), (["--select", "AMP05"], False), (["--select", "AMP010,AMP050"], True)],
)
def test_forms_are_chosen_by_their_codes(repository, arguments, migrates):
    assert bool(run(*arguments, ".", cwd=repository).stdout) is migrates


def test_an_ignored_finding_is_not_shown(repository):
    (repository / "pkg/train.py").write_bytes(SCRIPT.replace(b"O1", b"O2"))
    assert b"AMP101" in run(".", cwd=repository).stderr
    assert b": AMP101" not in run("--ignore", "AMP101", ".", cwd=repository).stderr


def test_an_unknown_code_is_bad_usage(repository):
    result = run("--select", "E501", ".", cwd=repository)
    assert result.returncode == 2
    assert b"E501 is no code of amp-migrate" in result.stderr
    result = run("--select", "AMP010,AMP104", ".", cwd=repository)
    assert result.returncode == 2
    assert b"AMP104 is a finding" in result.stderr


def test_without_a_path_it_is_the_current_folder(repository):
    assert run(cwd=repository).stdout == run(".", cwd=repository).stdout != b""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verfy", "train.py"], b"did you mean `amp-migrate verify`?"),
        (["pkg/trian.py"], b"pkg/trian.py does not exist, or may not be read; did you mean pkg/train.py?"),
        (["--wirte"], b"'--write'"),
        (["--versoin"], b"'--version'"),
    ],
)
def test_a_mistyped_word_is_bad_usage_and_the_right_one_is_suggested(repository, arguments, said):
    result = run(*arguments, cwd=repository)
    assert result.returncode == 2
    assert said in result.stderr


def test_a_file_that_is_called_like_a_command_is_a_file(repository):
    (repository / "verfy").mkdir()
    assert run("verfy", cwd=repository).returncode == 0


def test_every_option_is_in_one_section_of_the_help(repository):
    from amp_migrate.cli.migrate import _SECTIONS, migrate

    options = [str(one.name) for one in migrate.params if one.name != "paths"]
    placed = [name for names in _SECTIONS.values() for name in names]
    assert len(placed) == len(set(placed))
    assert set(placed) <= set(options)
    text = run("--help", cwd=repository).stdout.decode()
    assert all(text.count(f"  --{name.replace('_', '-')} ") <= 1 for name in options)


def test_where_there_is_no_file_the_summary_says_so(tmp_path):
    result = run(cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, b"no Python file and no notebook was found.\n")


def test_a_lost_import_of_apex_is_named(tmp_path):
    (tmp_path / "train.py").write_bytes(SCRIPT.replace(b"from apex import amp\n", b""))
    said = run("train.py", cwd=tmp_path).stderr
    assert b"AMP908 nothing in this file binds `amp` of amp.scale_loss(loss, optimizer)" in said
    assert b"do:  restore the import" in said
    (tmp_path / "train.py").write_bytes(SCRIPT.replace(b"from apex import amp\n", b"from utils import *\n"))
    assert b"binds `amp`" not in run("train.py", cwd=tmp_path).stderr


def test_an_import_of_apex_in_another_function_is_none(tmp_path):
    script = """\
import torch

net = torch.nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def setup():
    from apex import amp
    return amp.initialize(net, optimizer, opt_level="O1")


net, optimizer = setup()
loss = net(torch.randn(2, 3).cuda()).sum()
with amp.scale_loss(loss, optimizer) as scaled:
    scaled.backward()
optimizer.step()
"""
    (tmp_path / "train.py").write_text(script)
    said = run("train.py", cwd=tmp_path).stderr
    assert b"train.py:14: AMP908 nothing in this file binds `amp` of amp.scale_loss(loss, optimizer)" in said
