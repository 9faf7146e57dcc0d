"""Shell completion: commands, options, values, codes and paths, as the shells ask for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def ask(line: str, shell: str = "bash") -> list[str]:
    """What the command answers to the script that completes for a shell, where the cursor is at the end of a line."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "_AMP_MIGRATE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1),
    }
    command = [sys.executable, "-c", "from amp_migrate.cli import main; main()"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (
            "amp-migrate ",
            ["file,", *(f"plain,{name}" for name in ("migrate", "judge", "verify", "checkpoint", "explain", "guide"))],
        ),
        ("amp-migrate ver", ["file,ver", "plain,verify"]),
        ("amp-migrate src/", ["file,src/"]),
        ("amp-migrate . src/", ["file,src/"]),
        ("amp-migrate --w", ["plain,--write", "plain,--workers"]),
        ("amp-migrate --ver", ["plain,--verbose", "plain,--version"]),
        ("amp-migrate . --sel", ["plain,--select"]),
        ("amp-migrate --api ", ["plain,torch.cuda.amp", "plain,torch.amp"]),
        ("amp-migrate . --dtype bf", ["plain,bfloat16"]),
        ("amp-migrate . --select AMP010,amp03", ["plain,AMP010,AMP030"]),
        ("amp-migrate . --ignore AMP104", ["plain,AMP104"]),
        ("amp-migrate . --report ", ["file,"]),
        ("amp-migrate explain amp104", ["plain,AMP104"]),
        ("amp-migrate verify --dev", ["plain,--device"]),
        ("amp-migrate verify train.py --device ", ["plain,auto", "plain,cuda", "plain,cpu"]),
        ("amp-migrate checkpoint --to a", ["plain,apex"]),
    ],
)
def test_what_is_offered(line, answer):
    assert ask(line) == answer


def test_other_shells_are_told_what_a_code_means():
    assert ask("amp-migrate explain AMP104", "zsh") == [
        "plain",
        "AMP104",
        "gradients are clipped before they are unscaled",
    ]
    assert ask("amp-migrate explain AMP104", "fish") == ["plain,AMP104\tgradients are clipped before they are unscaled"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_real_bash(tmp_path):
    """With the function that bash calls, and the command in its path."""
    tool = tmp_path / "amp-migrate"
    tool.write_text(f"#!{sys.executable}\nfrom amp_migrate.cli import main\nmain()\n")
    tool.chmod(0o755)
    script = """
        eval "$(_AMP_MIGRATE_COMPLETE=bash_source amp-migrate)"
        complete -p amp-migrate
        COMP_WORDS=(amp-migrate . --select AMP06); COMP_CWORD=3
        _amp_migrate_completion amp-migrate AMP06 --select
        echo "${COMPREPLY[@]}"
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    result = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    registered, offered = result.stdout.splitlines()
    assert registered.endswith("-F _amp_migrate_completion amp-migrate")
    assert offered == "AMP060"
    assert result.stderr == ""
