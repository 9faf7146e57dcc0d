"""What cannot be read or parsed is said where it might have trained, and the exit code is 2."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from amp_migrate.cli.migrate import migrate
from tests.test_cli import SCRIPT, git


def run(*arguments: str) -> Result:
    return CliRunner().invoke(migrate, list(arguments))


@pytest.mark.parametrize(
    "head",
    [
        "from apex import amp",
        "from apex.parallel import DistributedDataParallel",
        "from apex.fp16_utils import FP16_Optimizer",
        "import torch\nloss.backward()\nx.cuda()",
        "import torch\nloss.backward()",
        "from torch.cuda.amp import autocast",
        "import torch\nimport pytorch_lightning as pl\npl.Trainer(gpus=1)",
        "import torch\noptimizer = torch.optim.SGD([x], 0.1)",
    ],
)
@pytest.mark.parametrize("broken", ["print 'x'", "x = (", "x = '\udcff'"])
def test_a_file_that_might_have_trained(tmp_path, monkeypatch, head, broken):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_bytes(f"{head}\n{broken}\n".encode(errors="surrogateescape"))
    line = head.count("\n") + 2
    for arguments in (["."], ["train.py", "--check"], [".", "--write"]):
        told = run(*arguments)
        code = "AMP990" if "\udcff" in broken else "AMP991"
        assert (told.exit_code, f"train.py:{line}: {code} " in told.stderr) == (2, True), told.output


@pytest.mark.parametrize("source", ["print 'x'", "import torch\nprint 'x'", "loss.backward()\nprint 'x'"])
def test_others_are_nobodys_business(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.py").write_text(source)
    assert (run(".").exit_code, run(".").stderr) == (0, "1 file with nothing to migrate.\n")


def test_it_can_be_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.py").write_text("import torch\noptimizer.step()\nprint 'x'\n")
    assert "AMP991" not in run(".", "--ignore", "AMP991").stderr
    (tmp_path / "pyproject.toml").write_text('[tool.amp-migrate]\nexclude = ["old.py"]\n')
    assert run(".").exit_code == 0


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret/deeper").mkdir(parents=True)
    (tmp_path / "secret/deeper/train.py").write_bytes(SCRIPT)
    (tmp_path / "train.py").write_bytes(SCRIPT)
    return tmp_path


def _told(result: Result) -> None:
    assert result.exit_code == 2, result.output
    assert "secret:1: AMP993 Permission denied" in result.stderr
    assert "1 file migrated, 1 file not processed" in result.stderr


def test_a_folder_that_cannot_be_listed(project, monkeypatch):
    original = os.scandir

    def scandir(folder="."):
        if Path(folder).name == "secret":
            raise PermissionError(errno.EACCES, "Permission denied", folder)
        return original(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    _told(run(".", "--write"))


def test_a_folder_whose_files_only_git_knows(project, monkeypatch):
    git("init", cwd=project)
    git("add", ".", cwd=project)
    original = os.lstat

    def lstat(path, **more):
        if "secret" in Path(path).parts[:-1]:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return original(path, **more)

    monkeypatch.setattr(os, "lstat", lstat)
    _told(run(".", "--write"))


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions are another matter on this system")
@pytest.mark.parametrize("state", ["no repository", "untracked", "tracked"])
def test_a_folder_without_permission(monkeypatch, state):
    """Where this is root, whom no permission binds, as somebody else."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders cannot be entered by others
        folder = Path(name)
        (folder / "secret").mkdir()
        (folder / "secret/train.py").write_bytes(SCRIPT)
        (folder / "train.py").write_bytes(SCRIPT)
        if state != "no repository":
            git("init", cwd=folder)
            git("add", "." if state == "tracked" else "train.py", cwd=folder)
        (folder / "secret").chmod(0)
        monkeypatch.chdir(folder)
        is_root = os.geteuid() == 0
        if is_root:
            subprocess.run(["chown", "-R", "65534:65534", name], check=True)
            os.seteuid(65534)
        try:
            result = run(".", "--write")
        finally:
            if is_root:
                os.seteuid(0)
            (folder / "secret").chmod(0o755)
        monkeypatch.undo()
        _told(result)


TRAINING = """\
import torch
IMPORT

model = MADE.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.randn(4, 8).cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NET = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x.masked_fill(x > 0, -1e9)


def build():
    return Net()


def moved(x):
    return x.cuda(async=True)
"""


@pytest.mark.parametrize(
    ("imported", "made"),
    [
        ("from net import Net", "Net()"),
        ("import net", "net.Net()"),
        ("from net import build", "build()"),
        ("from nets import Net", "Net()"),
    ],
)
def test_a_model_in_a_file_that_does_not_parse(tmp_path, monkeypatch, imported, made):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINING.replace("IMPORT", imported).replace("MADE", made))
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "nets.py").write_text("from net import Net\n")
    told = run(".")
    assert (told.exit_code, "net.py:14: AMP991 " in told.stderr, told.stdout) == (2, True, "")
