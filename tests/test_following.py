"""The last line of a summary: the command that comes next, which works as it is printed."""

from __future__ import annotations

import shlex

import pytest

from amp_migrate.cli.following import is_run
from tests.test_cli import PLAIN, SCRIPT, git, run

RUN = b"def train():\n" + b"".join(b"    " + line for line in SCRIPT.splitlines(keepends=True)[3:])
RUN = b"import torch\nfrom apex import amp\n" + RUN + b"if __name__ == '__main__':\n    train()\n"
LOOP = (
    SCRIPT.replace(b"from apex import amp\n", b"")
    .replace(b"model, optimizer = amp.i", b"# ")
    .replace(b"    with amp.scale_loss(loss, optimizer) as scaled_loss:\n        scaled_loss", b"    loss")
)


@pytest.fixture
def project(tmp_path):
    git("init", cwd=tmp_path)
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b/train.py").write_bytes(SCRIPT)
    (tmp_path / "plain.py").write_bytes(PLAIN)
    return tmp_path


def following(*arguments: str, cwd, **env: str) -> str:
    """What is printed as the next command; empty without one."""
    *_, last = ["", *run(*arguments, cwd=cwd, **env).stderr.decode().splitlines()]
    return last.removeprefix("next: ") if last.startswith("next: ") else ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["."], "amp-migrate . --write"),
        (["a b/train.py", "plain.py"], "amp-migrate 'a b/train.py' plain.py --write"),
        ([".", "--check"], "amp-migrate . --write"),
        ([".", "-v", "--api", "torch.amp"], "amp-migrate . --api torch.amp --write"),
        (["--repair-clip", "--select=AMP010,AMP060", "--select", "AMP050", "."], None),
        (["migrate", "a b"], "amp-migrate 'a b' --write"),
    ],
)
def test_what_would_change_is_written_by_the_next_command(project, given, said):
    command = following(*given, cwd=project)
    assert command == (said or "amp-migrate . --repair-clip --select AMP010,AMP060 --select AMP050 --write")
    assert run(*shlex.split(command)[1:], cwd=project).returncode == 0
    assert (project / "a b/train.py").read_bytes() != SCRIPT


def test_names_that_look_like_something_else(project):
    (project / "-x.py").write_bytes(SCRIPT)
    assert following("--", "-x.py", cwd=project) == "amp-migrate --write -- -x.py"
    (project / "verify").mkdir()
    (project / "verify/x.py").write_bytes(SCRIPT)
    assert following("migrate", "verify", cwd=project) == "amp-migrate migrate verify --write"
    (project / "x\n.py").write_bytes(SCRIPT)
    assert following("x\n.py", cwd=project) == ""


@pytest.mark.parametrize("given", [["plain.py"], [".", "-q"], ["-"], [".", "--output-format", "json"]])
def test_nothing_comes_next(project, given):
    assert following(*given, cwd=project) == ""


def test_loops_that_were_only_reported_are_not_written_next(project):
    (project / "loop.py").write_bytes(LOOP)
    (project / "pyproject.toml").write_text('[tool.amp-migrate]\nignore = ["AMP101"]\n')
    assert following(".", "--check", cwd=project) == "amp-migrate . --ignore AMP101,AMP050 --write"
    assert following(".", "--check", "--ignore", "AMP3", cwd=project) == "amp-migrate . --ignore AMP3,AMP050 --write"
    assert following(".", cwd=project) == "amp-migrate . --write"


def test_what_was_written_is_verified_where_git_has_the_original(project):
    (project / "a b/train.py").write_bytes(RUN)
    assert following(".", "--write", cwd=project) == ""  # there is nothing to compare it with
    (project / "a b/train.py").write_bytes(RUN)
    git("add", ".", cwd=project)
    git("-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-m", "all", cwd=project)
    for env, command in (({}, "amp-migrate verify 'a b/train.py'"), ({"PRE_COMMIT": "1"}, "")):
        git("checkout", ".", cwd=project)
        assert following(".", "--write", cwd=project, **env) == command
    (project / "a b/train.py").write_bytes(RUN + b"# changed\n")
    assert following(".", "--write", cwd=project) == ""


@pytest.mark.parametrize(
    ("source", "runs"),
    [
        (SCRIPT, True),
        (RUN, True),
        (RUN.split(b"if __name__")[0], False),
        (b"class Net:\n    def f(self):\n        self.loss.backward()\n", False),
        (b"broken(", False),
    ],
)
def test_what_is_a_script(source, runs):
    assert is_run(source) is runs
