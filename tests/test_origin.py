"""What pages say about how they came about: version, command, commit and time."""

from __future__ import annotations

import re
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from amp_migrate import __version__
from amp_migrate.cli import _commands
from amp_migrate.report.origin import Origin, origin_of
from tests.fixture import ROOT

SCRIPT = (ROOT / "apex" / "first_minute" / "before.py").read_text()


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def committed(folder: Path) -> str:
    """Makes a repository with one script; its commit."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    (folder / "train.py").write_text(SCRIPT)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return git(folder, "rev-parse", "HEAD")


def test_commit_of_a_clean_repository(tmp_path):
    commit = committed(tmp_path)
    (tmp_path / "page.html").write_text("the last page")
    assert origin_of([tmp_path / "train.py", tmp_path]).commit == commit


@pytest.mark.parametrize("name", ["train.py", "src/new.py", "näme.ipynb"])
def test_a_source_that_is_not_in_the_commit_is_a_change(tmp_path, name):
    commit = committed(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("x = 1\n")
    assert origin_of([tmp_path]).commit == f"{commit} + changes"


def test_no_commit_where_there_is_none(tmp_path):
    assert origin_of([tmp_path]).commit == ""
    git(tmp_path, "init", "-q")
    assert origin_of([tmp_path]).commit == ""
    assert "commit" not in origin_of([tmp_path]).render()


def test_two_repositories_by_their_names(tmp_path):
    first, second = committed(tmp_path / "first"), committed(tmp_path / "second")
    told = origin_of([tmp_path / "first" / "train.py", tmp_path / "second"])
    assert told.commit == f"first {first}, second {second}"


def test_command_as_it_was_typed(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/amp-migrate", "my scripts", "--report", "page.html"])
    assert origin_of([]).command == "amp-migrate 'my scripts' --report page.html"


def test_the_time_has_a_zone():
    assert datetime.fromisoformat(origin_of([]).time).utcoffset() is not None


def test_what_was_typed_is_text():
    told = Origin("amp-migrate '<b>'", "", "2026-01-02T03:04:05+00:00").render()
    assert "<dd><code>amp-migrate &#x27;&lt;b&gt;&#x27;</code></dd>" in told


@pytest.mark.parametrize("write", [[], ["--write"]])
def test_page_of_a_repository_says_what_was_looked_at(tmp_path, monkeypatch, write):
    """The commit is that of the sources as they were: what is written afterwards is no change."""
    commit = committed(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["amp-migrate", ".", "--report", "page.html"])
    result = CliRunner().invoke(_commands, [".", "--report", "page.html", *write])
    assert result.exit_code == 0, result.output
    header = re.search("<header>.*?</header>", Path("page.html").read_text(), re.DOTALL)
    assert header is not None
    assert f"<dt>amp-migrate</dt><dd>{__version__}</dd>" in header[0]
    assert "<dd><code>amp-migrate . --report page.html</code></dd>" in header[0]
    assert f"<dd><code>{commit}</code></dd>" in header[0]
    assert re.search(r"<dt>time</dt><dd><time datetime=\"\d{4}-\d\d-\d\dT", header[0])
