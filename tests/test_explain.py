"""`amp-migrate explain`, and the pages that are made of the same texts."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from amp_migrate import Options, migrate_source
from amp_migrate.cli import _commands
from amp_migrate.explain.page import EXAMPLES, explained, page
from amp_migrate.explain.terminal import rendered
from amp_migrate.forms import FORMS
from amp_migrate.report.terminal import Look
from amp_migrate.rules.catalogue import RULES
from amp_migrate.rules.source_forms import NATIVE, TITLES
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


_PAGE = """# AMP1: a `title`

**Why.** Some words about `scaler.step(optimizer)` and <https://a.example/b>, more than fit in a line.

## Example

```python
x = "a very long line of code that is wider than any terminal"  # and so on

def f(): pass
```

```diff
-x = 1
+x = 2
```

```text
line 1: AMP1
```
"""


def test_a_terminal_shows_a_page_without_its_marks():
    assert list(rendered(_PAGE, Look(40))) == [
        "AMP1: a `title`",
        "",
        "Why. Some words about",
        "`scaler.step(optimizer)` and",
        "https://a.example/b, more than fit in",
        "a line.",
        "",
        "Example",
        "",
        '    x = "a very long line of code that is wider than any terminal"  # and so on',
        "",
        "    def f(): pass",
        "",
        "    -x = 1",
        "    +x = 2",
        "",
        "    line 1: AMP1",
    ]


def test_a_terminal_with_colours_shows_them():
    told = list(rendered(_PAGE, Look(40, has_colours=True)))
    assert told[0] == "\033[1mAMP1: a `title`\033[0m"
    assert "\n".join(told[2:6]).startswith("\033[1mWhy.\033[0m Some words about\n\033[36mscaler.step(optimizer)\033[0m")
    assert "    \033[35mdef\033[0m f(): \033[35mpass\033[0m" in told
    assert told[-4:-2] == ["    \033[31m-x = 1\033[0m", "    \033[32m+x = 2\033[0m"]
    plain = [re.sub("\033\\[[0-9;]*m", "", line) for line in told]
    assert plain == [
        line.replace("`scaler.step(optimizer)`", "scaler.step(optimizer)") for line in rendered(_PAGE, Look(40))
    ]


@pytest.mark.parametrize("code", ["AMP010", "AMP104", "AMP420", "AMP906"])
def test_no_page_has_marks_left_on_a_terminal(code):
    told = "\n".join(rendered(page(code), Look(80)))
    assert not re.search(r"^```|^#+ |\*\*", told, re.MULTILINE)
    source, *_ = re.findall(r"```python\n(.*?)```", page(code), re.DOTALL) or [""]
    assert all(f"    {line}".rstrip() in told.split("\n") for line in source.split("\n"))


def test_codes_for_programs():
    everything = json.loads(run("--output-format", "json").stdout)
    assert [one["code"] for one in everything] == explained()
    assert {one["kind"] for one in everything} == {"form", "note", "attention", "breach", "refusal", "error"}
    assert {one["severity"] for one in everything} == {"note", "warning", "error"}
    one = json.loads(run("amp913", "--output-format", "json").stdout)
    rule = RULES["AMP913"]
    assert (one["title"], one["why"], one["what_to_do"]) == (rule.title, rule.why, rule.what_to_do)
    assert one["example"] == (EXAMPLES / "AMP913.txt").read_text()
    assert one in everything
    assert json.loads(run("AMP010", "--output-format", "json").stdout)["stays"] == FORMS["AMP010"].stays
    assert run("AMP777", "--output-format", "json").exit_code == 2
