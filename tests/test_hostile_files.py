"""Strange files: links, loops, pipes, devices, and names that no terminal can show."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from amp_migrate.report.formats import FORMATS
from tests.test_cli import SCRIPT, git
from tests.test_cli import run as run_without_limit

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="names and links of POSIX")
_MIGRATED = b"scaler.step(optimizer)"


def run(*arguments: str | bytes, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    """The command, which neither hangs nor shows a traceback. The limit is a guard and no measurement."""
    command = [sys.executable, "-m", "amp_migrate", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(command, cwd=cwd, capture_output=True, env=environment, timeout=120, check=False)
    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
    return done


def test_link_loops_end(tmp_path):
    (tmp_path / "train.py").write_bytes(SCRIPT)
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "one.py").symlink_to("other.py")
    (tmp_path / "other.py").symlink_to("one.py")
    (tmp_path / "again").symlink_to(".")
    assert run(".", "--write", cwd=tmp_path).returncode == 0
    assert _MIGRATED in (tmp_path / "train.py").read_bytes()
    named = run("loop.py", "--write", cwd=tmp_path)
    assert (named.returncode, b"loop.py does not exist" in named.stderr) == (2, True)


def test_links_that_leave_the_folder_are_followed_only_by_name(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "train.py").write_bytes(SCRIPT)
    (inside / "link.py").symlink_to(outside / "train.py")
    (inside / "folder").symlink_to(outside)
    (inside / "dangling.py").symlink_to("nowhere.py")
    assert run(".", "--write", cwd=inside).returncode == 0
    assert (outside / "train.py").read_bytes() == SCRIPT
    assert run("link.py", "--write", cwd=inside).returncode == 0
    assert _MIGRATED in (outside / "train.py").read_bytes()
    assert (inside / "link.py").is_symlink()


def test_two_hard_links_are_two_files(tmp_path):
    """Each is replaced as a whole, and they are no longer one: a file that was not asked for stays."""
    (tmp_path / "train.py").write_bytes(SCRIPT)
    os.link(tmp_path / "train.py", tmp_path / "twin.py")
    assert run("train.py", "--write", cwd=tmp_path).returncode == 0
    assert _MIGRATED in (tmp_path / "train.py").read_bytes()
    assert (tmp_path / "twin.py").read_bytes() == SCRIPT


@pytest.mark.parametrize("named", [True, False])
def test_pipes_sockets_and_devices_are_not_read(tmp_path, named):
    (tmp_path / "train.py").write_bytes(b"from pipe import helper\n" + SCRIPT)
    os.mkfifo(tmp_path / "pipe.py")
    os.mkfifo(tmp_path / "requirements.txt")
    (tmp_path / "device.py").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(tmp_path, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{folder}/socket.py" if sys.platform == "linux" else str(tmp_path / "socket.py"))
        os.close(folder)
        strange = ["pipe.py", "device.py", "socket.py"] if named else []
        done = run(*strange, "train.py" if named else ".", "--write", cwd=tmp_path)
    assert done.returncode == (2 if named else 0), done.stderr.decode()
    assert (b"pipe.py:1: AMP993 it is no regular file" in done.stderr) is named
    for name in strange:
        assert f"{name}:1".encode() in done.stderr
    assert _MIGRATED in (tmp_path / "train.py").read_bytes()


_NAMES = {
    "a line feed": b"two\nlines.py",
    "no UTF-8": b"caf\xe9.py",
    "an escape sequence": b"\x1b[31mred.py",
    "quotes and markup": b"<b>\"'&|`.py",
    "a leading dash": b"--write.py",
    "a percent sign": b"100%.py",
    "two dots and spaces": b" .. .py",
    "workflow commands": b"::error::.py",
    "the longest name": b"n" * 252 + b".py",
}
_named = pytest.mark.parametrize("name", _NAMES.values(), ids=_NAMES)


@_named
def test_names_in_every_output(tmp_path, name):
    folder = os.fsencode(tmp_path) + b"/tree"
    os.mkdir(folder)
    try:
        with open(folder + b"/" + name, "wb") as file:
            file.write(SCRIPT.replace(b'"O1"', b'"O2"'))
    except OSError as error:
        pytest.skip(f"this file system has no such names: {error}")
    for output_format in ("text", *FORMATS):
        report, patch = tmp_path / "report.html", tmp_path / "a.patch"
        arguments = ["--output-format", output_format, "--report", str(report), "--patch", str(patch), "-vv"]
        done = run(*arguments, "tree", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert report.read_text(encoding="utf-8", errors="strict").endswith("</html>\n")
        if output_format in ("json", "rdjson", "sarif"):
            json.loads(done.stdout.decode("utf-8"))
        elif output_format != "text":
            done.stdout.decode("utf-8")
        if output_format == "github":
            assert all(line.startswith(b"::") for line in done.stdout.splitlines() if line)
    assert run(b"./tree/" + name, "--write", cwd=tmp_path).returncode == 0
    with open(folder + b"/" + name, "rb") as file:
        assert _MIGRATED in file.read()
    assert os.listdir(folder) == [name]


@_named
def test_patches_of_names_apply(tmp_path, name):
    path = os.fsencode(tmp_path) + b"/" + name
    git("init", cwd=tmp_path)
    try:
        with open(path, "wb") as file:
            file.write(SCRIPT)
    except OSError as error:
        pytest.skip(f"this file system has no such names: {error}")
    patch = run(".", cwd=tmp_path).stdout
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=patch, check=True)
    with open(path, "rb") as file:
        assert _MIGRATED in file.read()


def test_standard_input_that_is_no_text(tmp_path):
    done = run_without_limit("-", "--write", cwd=tmp_path, stdin=b"from apex import amp\n\xff\n")
    assert (done.returncode, b"<stdin>:2: AMP990 byte 0xff" in done.stderr) == (2, True), done.stderr
    assert done.stdout == b"from apex import amp\n\xff\n"
