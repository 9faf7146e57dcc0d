"""The adapter for LibCST's runner, run by it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixture import ROOT


def codemod(*paths: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "libcst.tool",
        "codemod",
        "--no-format",
        "-x",
        "amp_migrate.codemod.NativeAmp",
        *paths,
    ]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path) -> Path:
    (tmp_path / "requirements.txt").write_text("torch>=2.3\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def test_a_script(project):
    fixture = ROOT / "apex" / "accumulation_window"
    shutil.copy(fixture / "before.py", project / "train.py")
    result = codemod("train.py", cwd=project)
    assert result.returncode == 0, result
    assert (project / "train.py").read_text() == (fixture / "after.py").read_text()
    again = codemod("train.py", cwd=project)
    assert (again.returncode, "nothing to migrate" in again.stderr + again.stdout) == (0, True), again


def test_a_unit_of_several_files_stays_and_says_so(project):
    shutil.copytree(ROOT / "units" / "setup_in_another_file" / "before", project, dirs_exist_ok=True)
    before = {path.name: path.read_text() for path in project.glob("*.py")}
    result = codemod("main.py", "build.py", cwd=project)
    assert {path.name: path.read_text() for path in project.glob("*.py")} == before
    assert "AMP901 belongs together with" in result.stderr + result.stdout
