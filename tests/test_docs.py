"""What the documents list is all there is, and their examples are valid."""

from __future__ import annotations

import re

import pytest
import yaml
from click.shell_completion import get_completion_class

from amp_migrate.cli.migrate import migrate
from amp_migrate.config import _KEYS, config_for
from amp_migrate.report.formats import FORMATS
from tests.fixture import ROOT
from tests.test_cli import run

README = (ROOT.parent / "README.md").read_text()
CONFIGURATION = (ROOT.parent / "docs" / "configuration.md").read_text()
TERMINAL = (ROOT.parent / "docs" / "terminal.md").read_text()
USAGE = (ROOT.parent / "docs" / "usage.md").read_text()
PULL_REQUESTS = (ROOT.parent / "docs" / "pull-requests.md").read_text()


def listed(document: str, heading: str) -> set[str]:
    """The names in the first column of the first table below some words, or below its own heading."""
    table = document.split(heading, 1)[1].split("\n|", 1)[1].split("\n\n", 1)[0]
    return set(re.findall(r"^\|? `([\w-]+)` \|", table, re.MULTILINE))


def test_every_key_of_the_configuration(tmp_path):
    assert listed(CONFIGURATION, "All keys are optional") == set(_KEYS)
    example = re.search(r"```toml\n(.*?)```", CONFIGURATION, re.DOTALL)
    assert example is not None
    assert all(f"\n{key} = " in example[1] for key in _KEYS)
    (tmp_path / "pyproject.toml").write_text(example[1])
    assert config_for([tmp_path / "train.py"]).torch == (2, 1)


def test_every_output_format():
    assert listed(PULL_REQUESTS, "## Output formats") == {"text", *FORMATS}


def test_every_input_and_output_of_the_action():
    action = yaml.safe_load((ROOT.parent / "action.yml").read_text())
    assert listed(PULL_REQUESTS, "it looks at everything") == set(action["inputs"])
    assert listed(PULL_REQUESTS, "| Output | |") == set(action["outputs"])


def test_every_option():
    options = {name for one in migrate.params for name in one.opts if name.startswith("--")}
    assert [name for name in sorted(options - {"--quiet", "--verbose"}) if name not in USAGE] == []


def test_the_readme_shows_what_its_first_command_prints():
    command = re.search(r"&& (amp-migrate .*)\n", README)
    assert command is not None
    done = run(*command[1].split()[1:], cwd=ROOT.parent, COLUMNS="100")
    shown = "".join(f"```{kind}\n{text}```\n\n" for kind, text in zip(("diff", "text"), said(done), strict=True))
    assert README.split(command[0] + "```\n\n")[1].startswith(shown)


def said(done) -> tuple[str, str]:
    """What a run printed on standard output and on standard error."""
    return done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize(
    "document",
    [CONFIGURATION, PULL_REQUESTS, TERMINAL, USAGE],
    ids=["configuration", "pull-requests", "terminal", "usage"],
)
def test_examples_and_links(document):
    for example in re.findall(r"```yaml\n(.*?)```", document, re.DOTALL):
        assert isinstance(yaml.safe_load(example.split("\n# ...")[0]), dict)
    for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", document):
        assert (ROOT.parent / "docs" / link).exists(), link


def test_every_shell_that_completes():
    shells = re.findall(r"_AMP_MIGRATE_COMPLETE=(\w+)_source", TERMINAL)
    assert {"bash", "zsh", "fish"} == set(shells)
    assert all(get_completion_class(shell) is not None for shell in shells)
