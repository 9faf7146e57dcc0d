"""The recipes for editors, and the page for agents: what they read is what the command prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from amp_migrate.cli import _commands
from tests.fixture import ROOT

DOCS = ROOT.parent / "docs"
EDITORS = (DOCS / "editors.md").read_text()
AGENTS = (DOCS / "agents.md").read_text()
REFUSED = ROOT / "apex" / "refuse_unknown_optimizer" / "before.py"
CHANGED = ROOT / "apex" / "body_clip_inside" / "before.py"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", EDITORS, re.DOTALL)


def test_the_problem_matcher_reads_what_is_printed():
    tasks = json.loads(blocks("json")[0])["tasks"]
    check = next(task for task in tasks if task["label"] == "amp-migrate: check")
    matcher = check["problemMatcher"]["pattern"]
    arguments = [part for part in check["args"] if part != "${file}"]
    stdout = CliRunner().invoke(_commands, ["migrate", str(REFUSED), str(CHANGED), *arguments]).stdout
    found = [re.fullmatch(matcher["regexp"], line) for line in stdout.splitlines()]
    assert all(found) and len(found) == 3
    told = {one[matcher["code"]]: one for one in found if one is not None}
    assert {code: one[matcher["severity"]] for code, one in told.items()} == {
        "AMP010": "notice",
        "AMP104": "warning",
        "AMP906": "warning",
    }
    clip = told["AMP104"]
    assert clip[matcher["file"]].endswith("body_clip_inside/before.py")
    assert (clip[matcher["line"]], clip[matcher["column"]]) == ("18", "13")
    assert clip[matcher["message"]].endswith("clips scaled gradients, as it did under apex")


def test_the_plugin_for_pylsp(monkeypatch):
    """With a command that is this Python's, and a pylsp of nothing but its decorator."""

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        result = CliRunner().invoke(_commands, ["migrate", *command[1:]], input=options["input"])
        return subprocess.CompletedProcess(command, result.exit_code, result.stdout, result.stderr)

    stub = ModuleType("pylsp")
    monkeypatch.setattr(stub, "hookimpl", lambda function: function, raising=False)
    monkeypatch.setitem(sys.modules, "pylsp", stub)
    plugin: dict[str, Any] = {}
    exec(blocks("python")[0], plugin)
    plugin["subprocess"] = SimpleNamespace(run=run)
    source = CHANGED.read_text()
    document = SimpleNamespace(path=str(CHANGED), source=source, lines=source.splitlines(True))
    (clip,) = plugin["pylsp_lint"](document=document)
    assert (clip["code"], clip["severity"]) == ("AMP104", 2)
    begin, end = clip["range"]["start"], clip["range"]["end"]
    text = document.lines[begin["line"]][begin["character"] : end["character"]]
    assert begin["line"] == end["line"] == 17 and text.startswith("torch.nn.utils.clip_grad_norm_(")


def test_a_buffer_comes_back_whole_where_nothing_is_migrated():
    filter_ = re.search(r":%!amp-migrate (.*)", EDITORS)
    assert filter_ is not None
    words = filter_[1].replace("%:S", "buffer.py").split()
    for source in ("print('a')\n", "print 'a'\n", REFUSED.read_text()):
        result = CliRunner().invoke(_commands, ["migrate", *words], input=source)
        assert (result.stdout, result.stderr) == (source, "")


@pytest.mark.parametrize("document", [EDITORS, AGENTS], ids=["editors", "agents"])
def test_commands_and_links(document):
    for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", document):
        assert (DOCS / link).exists(), link
    migrate = _commands.get_command(None, "migrate")  # type: ignore[arg-type]
    assert migrate is not None
    options = {name for one in migrate.params for name in one.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]+", document)) <= options


def test_keys_of_a_brief_are_told():
    schema = json.loads((DOCS / "report.schema.json").read_text())
    table = AGENTS.split("| Key | |")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", table)) == set(schema["$defs"]["brief"]["required"])
