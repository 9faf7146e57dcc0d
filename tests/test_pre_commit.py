"""The hooks, run by pre-commit itself: it clones the repository, installs it without extras, and hands over names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixture import ROOT

REPOSITORY = ROOT.parent
PLAIN = (ROOT / "plain" / "cnn_clip" / "before.py").read_text()


def git(*args: str, cwd: Path) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", *identity, *args], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def hooks(tmp_path_factory) -> Path:
    """A repository with what is needed to install the hooks."""
    folder = tmp_path_factory.mktemp("hooks")
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(REPOSITORY / name, folder / name)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "amp_migrate", folder / "amp_migrate", ignore=ignored)
    git("init", "-q", cwd=folder)
    git("add", "-A", cwd=folder)
    git("commit", "-qm", "release", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def pre_commit(tmp_path_factory):
    """Runs pre-commit; what it installs is shared by the tests."""
    cache = tmp_path_factory.mktemp("cache")

    def run(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PRE_COMMIT_HOME": str(cache)}
        environment.pop("PYTHONPATH", None)
        command = [sys.executable, "-m", "pre_commit", *args]
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def project(tmp_path) -> Path:
    """A repository whose training is spread over two files."""
    shutil.copytree(ROOT / "units" / "setup_in_another_file" / "before", tmp_path, dirs_exist_ok=True)
    (tmp_path / "plain.py").write_text(PLAIN)
    (tmp_path / "pyproject.toml").write_text('[tool.amp-migrate]\napi = "torch.amp"\n')
    git("init", "-q", cwd=tmp_path)
    git("add", "-A", cwd=tmp_path)
    git("commit", "-qm", "first", cwd=tmp_path)
    return tmp_path


def test_try_repo(pre_commit, hooks, project):
    result = pre_commit("try-repo", str(hooks), "amp-migrate", "--all-files", cwd=project)
    assert (result.returncode, "files were modified by this hook" in result.stdout) == (1, True), result
    after = ROOT / "units" / "setup_in_another_file" / "after"
    for path in after.glob("*.py"):
        assert (project / path.name).read_text() == path.read_text()
    assert (project / "plain.py").read_text() == PLAIN
    git("add", "-A", cwd=project)
    again = pre_commit("try-repo", str(hooks), "amp-migrate", "--all-files", cwd=project)
    assert again.returncode == 0, again


def test_a_pinned_revision(pre_commit, hooks, project):
    config = f"""\
repos:
  - repo: {hooks}
    rev: {git("rev-parse", "HEAD", cwd=hooks)}
    hooks:
      - id: amp-migrate-check
"""
    (project / ".pre-commit-config.yaml").write_text(config)
    git("add", "-A", cwd=project)
    result = pre_commit("run", "--all-files", cwd=project)
    assert (result.returncode, "2 files would be migrated" in result.stdout) == (1, True), result
    assert "AMP050 plain float32 training could run in mixed precision" in result.stdout
    assert git("diff", "--name-only", cwd=project) == ""


def test_a_commit_of_one_file_sees_the_rest_of_its_unit(pre_commit, hooks, project):
    (project / ".pre-commit-config.yaml").write_text(
        f"repos:\n  - repo: {hooks}\n    rev: {git('rev-parse', 'HEAD', cwd=hooks)}\n"
        "    hooks:\n      - id: amp-migrate\n        verbose: true\n"
    )
    git("add", "-A", cwd=project)
    git("commit", "-qm", "hooks", cwd=project)
    (project / "main.py").write_text((project / "main.py").read_text() + "\n# a remark\n")
    git("add", "main.py", cwd=project)
    result = pre_commit("run", cwd=project)
    assert result.returncode == 0, result
    assert "AMP901 belongs together with build.py, which was not given: name both, or their folder" in result.stdout


def test_plain_loops_are_migrated_where_they_are_selected(pre_commit, hooks, project):
    config = (
        f"repos:\n  - repo: {hooks}\n    rev: {git('rev-parse', 'HEAD', cwd=hooks)}\n"
        "    hooks:\n      - id: amp-migrate\n        args: [--select, AMP050]\n"
    )
    (project / ".pre-commit-config.yaml").write_text(config)
    git("add", "-A", cwd=project)
    assert pre_commit("run", "--all-files", cwd=project).returncode == 1
    assert git("diff", "--name-only", cwd=project) == "plain.py"
