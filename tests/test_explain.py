"""`amp-migrate explain`, and the pages that are made of the same texts."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from amp_migrate import Options, migrate_source
from amp_migrate.cli import _commands
from amp_migrate.explain.forms import FORMS
from amp_migrate.explain.page import EXAMPLES, explained, page
from amp_migrate.rules import RULES
from amp_migrate.selection import NATIVE, TITLES
from tests.rule_pages import FOLDER, pages

examples = pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.txt")), ids=lambda file: file.stem)


@examples
def test_an_example_leads_to_its_code(file):
    result = migrate_source(file.read_bytes(), Options(api="torch.amp"))
    found = {finding.code for finding in result.findings}
    native = {NATIVE for code in found if code.startswith("AMP4")}  # a form that is looked through, and not migrated
    assert file.stem in found | native | {result.form}, [str(one) for one in result.findings]
    of_migrated = file.stem.startswith("AMP1") and RULES[file.stem].kind == "attention"
    assert result.changed or not of_migrated, "an example of what is migrated is migrated"


def test_every_code_that_is_shown_has_a_page():
    assert set(explained()) == {*TITLES, *(code for code, rule in RULES.items() if rule.kind != "silence")}
    assert set(FORMS) == set(TITLES)


def test_pages_are_as_the_texts_are():
    """Where this fails: `python -m tests.rule_pages`, and read what changed."""
    assert {file.name: file.read_text(encoding="utf-8") for file in FOLDER.iterdir()} == pages()


def run(*args: str):
    return CliRunner().invoke(_commands, ["explain", *args])


def test_explain():
    assert run("amp913").stdout == page("AMP913")
    assert "line 16: AMP913 optimizer.step(closure)" in run("AMP913").stdout
    assert [line.split()[0] for line in run().stdout.splitlines()] == explained()
    unknown = run("AMP777")
    assert (unknown.exit_code, "AMP777 is no code of amp-migrate" in unknown.stderr) == (2, True)
