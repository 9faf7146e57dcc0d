"""Writing, interrupted at every step: the old file or the new one, never neither, and no half of a unit.

The steps are the calls that write.py makes of the system: each is failed once (a full disk), and each is the last thing
that a process does once (a kill). What is guaranteed for the files of one unit: all of them or none, whatever fails; a
process that is killed between their renames, which come last and right after one another, leaves each file whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import amp_migrate.writing
from amp_migrate.cli.migrate import migrate
from tests.test_cli import SCRIPT, run

# Everything that write.py asks the system to do, in the order of one write.
_STEPS = (
    "os.access",
    "tempfile.mkstemp",
    "os.close",
    "os.fsync",
    "os.chown",
    "os.chmod",
    "Path.replace",
    "Path.unlink",
)
_ENTRY = b"""\
import torch
from apex import amp

from helper import train

model = torch.nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
train(model, optimizer, loader)
"""
_HELPER = b"""\
import torch
from apex import amp


def train(model, optimizer, loader):
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
"""
# Kills its own process at the n-th call of a function of write.py, before it or after it.
_KILLER = """\
import os, pathlib, shutil, signal, sys, tempfile
name, count, when = sys.argv[1], int(sys.argv[2]), sys.argv[3]
owner = {"os": os, "tempfile": tempfile, "Path": pathlib.Path}[name.split(".")[0]]
function, calls = getattr(owner, name.split(".")[1]), 0
def killing(*args, **kwargs):
    global calls
    calls += 1
    if calls == count and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = function(*args, **kwargs)
    if calls == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
import amp_migrate.writing
setattr(owner, name.split(".")[1], killing)
from amp_migrate.files.write import Change, write_all
write_all([Change(pathlib.Path(path), b"old\\n", b"new\\n") for path in sys.argv[4:]])
"""


def _killed(name: str, count: int, when: str, paths: list[Path]) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-c", _KILLER, name, str(count), when, *map(str, paths)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode != 0


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("name", _STEPS)
def test_a_kill_at_any_step_leaves_the_old_file_or_the_new_one(tmp_path, name):
    paths = [tmp_path / "train.py", tmp_path / "helper.py"]
    kills = 0
    for count in range(1, 9):
        for when in ("before", "after"):
            for path in paths:
                path.write_bytes(b"old\n")
            if not _killed(name, count, when, paths):
                assert [path.read_bytes() for path in paths] == [b"new\n", b"new\n"]
                break
            kills += 1
            assert {path.read_bytes() for path in paths} <= {b"old\n", b"new\n"}
            # What is left over is hidden, no Python file, and in nobody's way.
            left = [path for path in tmp_path.iterdir() if path not in paths]
            assert all(path.name.startswith(".amp-migrate.") and path.suffix != ".py" for path in left)
        else:
            continue
        break
    assert kills, f"{name} is no step of a write any more"
    for path in paths:
        path.write_bytes(SCRIPT)
    assert b"2 files migrated" in run(".", "--write", cwd=tmp_path).stderr


def _failing(function: Callable, count: int, error: int) -> Callable:
    """A function of the system that fails when it is called for the n-th time."""
    calls = 0

    def failing(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == count:
            raise OSError(error, os.strerror(error))
        return function(*args, **kwargs)

    return failing


@pytest.fixture
def unit(tmp_path) -> Path:
    (tmp_path / "train.py").write_bytes(_ENTRY)
    (tmp_path / "helper.py").write_bytes(_HELPER)
    return tmp_path


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    "owner_and_name", [(tempfile, "mkstemp"), (os, "fsync"), (Path, "replace")], ids=["mkstemp", "fsync", "replace"]
)
def test_a_full_disk_writes_all_files_of_a_unit_or_none(unit, monkeypatch, owner_and_name, count):
    owner, name = owner_and_name
    monkeypatch.chdir(unit)
    monkeypatch.setattr(owner, name, _failing(getattr(owner, name), count, errno.ENOSPC))
    result = CliRunner().invoke(migrate, [".", "--write"])
    assert result.exit_code == 2, result.output
    assert "AMP993 No space left on device" in result.output
    assert "check that" in result.output
    assert isinstance(result.exception, SystemExit)
    assert (unit / "train.py").read_bytes() == _ENTRY
    assert (unit / "helper.py").read_bytes() == _HELPER
    assert sorted(path.name for path in unit.iterdir()) == ["helper.py", "train.py"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a small file system is mounted")
def test_a_disk_that_is_really_full(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting needs root: " + mounted.stderr.decode().strip())
    try:
        (disk / "train.py").write_bytes(SCRIPT)
        with contextlib.suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(bytes(4096)):
                pass
        result = run("train.py", "--write", cwd=disk)
        assert (result.returncode, b"Traceback" in result.stderr) == (2, False), result.stderr
        assert b"train.py:1: AMP993 No space left on device" in result.stderr
        assert (disk / "train.py").read_bytes() == SCRIPT
        assert sorted(path.name for path in disk.iterdir()) == ["ballast", "train.py"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def _edited_while_read(monkeypatch, file: Path, edit: Callable[[Path], object]) -> None:
    """Between reading and writing, somebody edits a file."""
    written = amp_migrate.writing.written

    def edits_first(results):
        edit(file)
        return written(results)

    monkeypatch.setattr(amp_migrate.writing, "written", edits_first)


def test_a_file_that_changes_meanwhile_is_not_overwritten(unit, monkeypatch):
    monkeypatch.chdir(unit)
    newer = _HELPER + b"# one more thing\n"
    _edited_while_read(monkeypatch, unit / "helper.py", lambda file: file.write_bytes(newer))
    result = CliRunner().invoke(migrate, [".", "--write"])
    assert result.exit_code == 2
    assert "helper.py:1: AMP995 it is not what it was when it was read" in result.output
    assert "do:  run again" in result.output
    assert (unit / "helper.py").read_bytes() == newer
    assert (unit / "train.py").read_bytes() == _ENTRY, "half a unit does not train"
    monkeypatch.undo()
    assert run(".", "--write", cwd=unit).returncode == 0
    assert b"# one more thing" in (unit / "helper.py").read_bytes()


def test_a_file_that_vanishes_meanwhile_stays_away(unit, monkeypatch):
    monkeypatch.chdir(unit)
    _edited_while_read(monkeypatch, unit / "helper.py", Path.unlink)
    result = CliRunner().invoke(migrate, [".", "--write"])
    assert result.exit_code == 2
    assert "helper.py:1: AMP993 No such file or directory" in result.output
    assert [path.name for path in unit.iterdir()] == ["train.py"]
    assert (unit / "train.py").read_bytes() == _ENTRY


def test_other_units_are_written_all_the_same(unit, monkeypatch):
    (unit / "alone.py").write_bytes(SCRIPT)
    monkeypatch.chdir(unit)
    _edited_while_read(monkeypatch, unit / "helper.py", Path.unlink)
    CliRunner().invoke(migrate, [".", "--write"])
    assert b"scaler.step(optimizer)" in (unit / "alone.py").read_bytes()


@contextlib.contextmanager
def _as_nobody(folder: Path):
    """Without the rights of root, for whom no permission binds: the effective user is another one for a while."""
    if not hasattr(os, "geteuid"):
        pytest.skip("permissions are another matter on this system")
    if os.geteuid() != 0:
        yield
        return
    os.chown(folder, 65534, 65534)
    for file in folder.iterdir():
        os.chown(file, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"), [(0o444, 0o755), (0o644, 0o555)], ids=["read-only file", "read-only folder"]
)
def test_what_is_read_only_stays(monkeypatch, file_mode, folder_mode):
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders cannot be entered by others
        folder = Path(name)
        (folder / "train.py").write_bytes(SCRIPT)
        (folder / "train.py").chmod(file_mode)
        monkeypatch.chdir(folder)
        with _as_nobody(folder):
            folder.chmod(folder_mode)
            result = CliRunner().invoke(migrate, ["train.py", "--write"])
            folder.chmod(0o755)
        monkeypatch.undo()
        assert result.exit_code == 2, result.output
        assert "train.py:1: AMP993 Permission denied" in result.output
        assert (folder / "train.py").read_bytes() == SCRIPT
        assert [path.name for path in folder.iterdir()] == ["train.py"]


def test_a_file_that_may_not_be_read_does_not_stop_the_others(monkeypatch):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "secret.py").write_bytes(SCRIPT)
        (folder / "secret.py").chmod(0)
        (folder / "train.py").write_bytes(SCRIPT)
        monkeypatch.chdir(folder)
        with _as_nobody(folder):
            result = CliRunner().invoke(migrate, [".", "--write"])
        monkeypatch.undo()
        assert result.exit_code == 2, result.output
        assert "secret.py:1: AMP993 Permission denied" in result.output
        assert b"scaler.step(optimizer)" in (folder / "train.py").read_bytes()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays(tmp_path):
    (tmp_path / "train.py").write_bytes(SCRIPT)
    os.chown(tmp_path / "train.py", 12345, 54321)
    assert run("train.py", "--write", cwd=tmp_path).returncode == 0
    status = (tmp_path / "train.py").stat()
    assert (status.st_uid, status.st_gid) == (12345, 54321)
