"""Ctrl-C: what was written until then is said, and the rest is as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_cli import SCRIPT, run

# The signal of Ctrl-C arrives when something has been called so many times.
_INTERRUPTED = """
import os, signal
from amp_migrate.cli import main
import {module} as module

original, calls = module.{name}, []

def interrupted(*arguments, **named):
    made = original(*arguments, **named)
    calls.append(1)
    if len(calls) == {times}:
        os.kill(os.getpid(), signal.SIGINT)
    return made

module.{name} = interrupted
main()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.py").write_bytes(SCRIPT)
    return tmp_path


def interrupted(project: Path, module: str, name: str, times: int, *arguments: str) -> tuple[int, str, list[str]]:
    """The exit code, what was said, and the files that were written."""
    code = _INTERRUPTED.format(module=module, name=name, times=times)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code, ".", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    written = [file.name for file in sorted(project.glob("*.py")) if file.read_bytes() != SCRIPT]
    assert not list(project.glob(".amp-migrate*"))
    return done.returncode, done.stderr, written


@pytest.mark.parametrize("arguments", [[], ["--write"], ["--check"]])
def test_while_files_are_read(project, arguments):
    said = interrupted(project, "amp_migrate.project", "read_regular", 2, *arguments)
    assert said == (130, "interrupted; no file was written\n", [])


def test_between_two_units(project):
    assert interrupted(project, "amp_migrate.writing", "write_all", 2, "--write") == (
        130,
        "interrupted; 2 files were written: a.py, b.py; the rest is as it was\n",
        ["a.py", "b.py"],
    )


def test_while_a_file_is_written(project):
    assert interrupted(project, "amp_migrate.files.write", "_reach_disk", 2, "--write") == (
        130,
        "interrupted; 1 file was written: a.py; the rest is as it was\n",
        ["a.py"],
    )


def test_after_all_were_written(project):
    code, said, written = interrupted(
        project, "amp_migrate.report.html", "render", 1, "--write", "--report", "page.html"
    )
    assert (code, said.startswith("interrupted; 3 files were written: a.py, b.py, c.py"), len(written)) == (
        130,
        True,
        3,
    )


def test_a_second_run_goes_on(project):
    interrupted(project, "amp_migrate.writing", "write_all", 1, "--write")
    assert b"2 files migrated" in run(".", "--write", cwd=project).stderr
