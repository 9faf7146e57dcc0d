"""`amp-migrate guide`: a skill file, whose commands exist and whose example the judge calls the same program."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from amp_migrate.cli import _commands
from amp_migrate.guide import SKILL

GUIDE = CliRunner().invoke(_commands, ["guide"]).stdout
ORIGINAL = """\
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = criterion(model(inputs), targets)
    if args.fp16:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
    else:
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
AROUND = """\
import argparse
import torch
{imports}
parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()
model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = torch.nn.MSELoss()
loader = [(torch.randn(8, 4).cuda(), torch.randn(8, 2).cuda()) for _ in range(9)]
{setup}
{loop}"""
SETUP = 'if args.fp16:\n    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")'


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_the_page_is_a_skill_file():
    assert SKILL.read_text(encoding="utf-8") == GUIDE
    front = yaml.safe_load(GUIDE.split("---\n")[1])
    assert front["name"] == SKILL.parent.name == "amp-migrate"
    assert 0 < len(front["description"]) <= 1024  # as much as agents read
    assert len(GUIDE.splitlines()) <= 105


def test_commands_have_the_options_that_are_named():
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("amp-migrate ")]
    assert len(lines) == 5
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        command = _commands.get_command(None, words[0]) or _commands.get_command(None, "migrate")
        options = {name for one in command.params for name in one.opts}
        own = words[: words.index("--")] if "--" in words else words
        assert {word for word in own if word.startswith("--")} <= options, line


def test_the_step_by_hand_is_the_same_program(tmp_path):
    (step,) = blocks("python")
    before = AROUND.format(imports="from apex import amp", setup=SETUP, loop=ORIGINAL)
    after = AROUND.format(imports="", setup="", loop=step)
    verdict = judged(tmp_path, before, after)
    assert verdict.startswith("same: proved: same program with and without mixed precision, steps"), verdict


@pytest.mark.parametrize("line", ["scaler.update()", "scaler.unscale_(optimizer)", ", enabled=args.fp16)"])
def test_each_part_of_the_step_is_needed(tmp_path, line):
    (step,) = blocks("python")
    before = AROUND.format(imports="from apex import amp", setup=SETUP, loop=ORIGINAL)
    without = step.replace(line, ")" if line.startswith(",") else "pass")
    assert judged(tmp_path, before, AROUND.format(imports="", setup="", loop=without)).startswith("wrong")


def judged(folder: Path, before: str, after: str) -> str:
    """The last line of `judge`."""
    (folder / "before.py").write_text(before)
    (folder / "after.py").write_text(after)
    paths = ["--before", str(folder / "before.py"), "--after", str(folder / "after.py")]
    return CliRunner().invoke(_commands, ["judge", "-q", *paths]).stdout
