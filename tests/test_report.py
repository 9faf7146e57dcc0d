"""The output formats: what other tools read must say the same as the diff."""

from __future__ import annotations

import json
import os
import re
import subprocess
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from amp_migrate.cli import _commands
from amp_migrate.findings import Finding, Span
from amp_migrate.home import REPOSITORY, page_of
from amp_migrate.report import github, html, markdown, rdjson, sarif
from amp_migrate.report.colours import coloured_lines
from amp_migrate.report.hunks import Hunk, hunks
from amp_migrate.report.model import Report
from amp_migrate.report.origin import Origin
from amp_migrate.result import Result
from amp_migrate.rules.catalogue import RULES
from amp_migrate.rules.source_forms import TITLES
from tests.fixture import ROOT

SCHEMA = json.loads((ROOT.parent / "docs" / "report.schema.json").read_text())
ORIGIN = Origin("amp-migrate . --report page.html", "1f0c2d", "2026-01-02T03:04:05+00:00")
FIXTURES = ["accumulation_window", "body_clip_inside", "bce_sigmoid"]


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A repository with scripts that migrate, one that is left alone, and one that does not parse."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "scripts").mkdir()
    for name in FIXTURES:
        (tmp_path / "scripts" / f"{name}.py").write_bytes((ROOT / "apex" / name / "before.py").read_bytes())
    (tmp_path / "left.py").write_bytes((ROOT / "fp16_utils" / "closure" / "before.py").read_bytes())
    (tmp_path / "broken.py").write_text("from apex import amp\nprint 'a'\n")
    (tmp_path / "requirements.txt").write_text("apex\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return tmp_path


def run(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(_commands, ["migrate", *args])
    return result.exit_code, result.stdout, result.stderr


def outputs(project: Path) -> dict[str, str]:
    """What the scripts become, by their paths in the repository."""
    return {f"scripts/{name}.py": (ROOT / "apex" / name / "after.py").read_text() for name in FIXTURES}


def applied(source: str, changes: list[tuple[dict[str, int], str]]) -> str:
    """Ranges of text replaced by others, from the last to the first, as both formats mean them: without columns whole
    lines, but not the end of the last one; with columns up to the end, exclusive.
    """
    starts = [0, *(match.end() for match in re.finditer(r"\r\n?|\n", source))]
    ends = [*(match.start() for match in re.finditer(r"\r\n?|\n", source)), len(source)]
    for where, text in reversed(changes):
        first = starts[where["first"] - 1] + where.get("column", 1) - 1
        has_end = "end_column" in where
        last = starts[where["last"] - 1] + where["end_column"] - 1 if has_end else ends[where["last"] - 1]
        source = source[:first] + text + source[last:]
    return source


def of_rdjson(log: str, path: str) -> list[tuple[dict[str, int], str]]:
    """The suggestions for a file."""
    own = [one for one in json.loads(log)["diagnostics"] if one["location"]["path"] == path and "suggestions" in one]
    assert all(one["location"]["range"] == one["suggestions"][0]["range"] for one in own)
    found = []
    for (one,) in (one["suggestions"] for one in own):
        start, end = one["range"]["start"], one["range"]["end"]
        where = {"first": start["line"], "column": start.get("column", 1), "last": end["line"]}
        found.append((where | ({"end_column": end["column"]} if "column" in end else {}), one["text"]))
    return found


def of_sarif(log: str, path: str) -> list[tuple[dict[str, int], str]]:
    """The fix of a file."""
    (only,) = json.loads(log)["runs"]
    (fix,) = (fix for one in only["results"] for fix in one.get("fixes", ()) if path in json.dumps(fix))
    names = {"startLine": "first", "startColumn": "column", "endLine": "last", "endColumn": "end_column"}
    return [
        ({names[name]: number for name, number in one["deletedRegion"].items()}, one["insertedContent"]["text"])
        for one in fix["artifactChanges"][0]["replacements"]
    ]


def test_json_follows_its_schema_and_holds_everything(project):
    code, stdout, stderr = run(".", "--api", "torch.amp", "--output-format", "json")
    data = json.loads(stdout)
    jsonschema.validate(data, SCHEMA)
    assert code == 2  # one file does not parse
    assert data["summary"]["files"] == {"untouched": 0, "migrated": 3, "left": 1, "error": 1}
    assert stderr.startswith("3 files would be migrated, 1 file left alone, 1 file not processed")
    assert [one["code"] for one in data["findings"]] == ["AMP130"]
    patch = "".join(one["diff"] for one in data["files"])
    subprocess.run(["git", "apply", "-"], input=patch.encode(), check=True)
    for path, expected in outputs(project).items():
        assert (project / path).read_text() == expected


def test_json_counts_each_unit_of_a_form_once(project):
    (form, other) = json.loads(run(".", "--output-format", "json")[1])["summary"]["forms"]
    assert (form["code"], form["units"]) == ("AMP010", {"migrated": 3, "left": 0, "error": 0})
    assert (other["code"], other["units"]) == ("AMP030", {"migrated": 0, "left": 1, "error": 0})


def test_companions_that_go_and_that_stay_are_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(
        "import torch\nfrom apex.normalization import FusedLayerNorm\nfrom apex.parallel import LARC\n\n"
        "norm = FusedLayerNorm(8)\nother = FusedLayerNorm(8)\n"
        "optimizer = LARC(torch.optim.SGD(norm.parameters(), lr=0.1))\n"
    )
    _, stdout, stderr = run(".", "--output-format", "json")
    data = json.loads(stdout)
    (form,) = data["summary"]["forms"]
    assert (form["code"], form["uses"]) == ("AMP060", {"migrated": 2, "left": 1, "error": 0})
    assert form["units"] == {"migrated": 0, "left": 1, "error": 0}
    assert data["files"][0]["companions"] == {"found": 3, "left": 1}
    assert "AMP060 other parts of apex: 1 unit left alone (1 file, 1 use), 2 uses there migrated" in stderr


def test_a_refused_training_is_left_alone_though_its_companions_are_migrated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("fit.py").write_text(
        "import torch\nfrom apex.normalization import FusedLayerNorm\n\n"
        "model = torch.nn.Sequential(torch.nn.Linear(3, 8), FusedLayerNorm(8)).cuda()\n"
        "optimizer = torch.optim.LBFGS(model.parameters())\n\n\n"
        "def closure():\n    loss = model(torch.randn(4, 3).cuda()).pow(2).mean()\n"
        "    optimizer.zero_grad()\n    loss.backward()\n    return loss\n\n\n"
        "optimizer.step(closure)\n"
    )
    plain, companions = json.loads(run(".", "--output-format", "json")[1])["summary"]["forms"]
    assert (plain["code"], plain["units"]) == ("AMP050", {"migrated": 0, "left": 1, "error": 0})
    assert (companions["code"], companions["units"]) == ("AMP060", {"migrated": 1, "left": 0, "error": 0})


def test_suggestions_of_rdjson_make_the_migrated_file(project):
    log = run(".", "--api", "torch.amp", "--output-format", "rdjson")[1]
    diagnostics = json.loads(log)["diagnostics"]
    for path, expected in outputs(project).items():
        assert applied((project / path).read_text(), of_rdjson(log, path)) == expected
    assert {one["code"]["value"] for one in diagnostics if "suggestions" in one} == {"AMP010"}
    assert all(one["code"]["url"].endswith(f"/{one['code']['value']}/") for one in diagnostics)
    found = {one["code"]["value"]: one for one in diagnostics if "suggestions" not in one}
    assert found["AMP913"]["severity"] == "WARNING"
    assert found["AMP991"]["severity"] == "ERROR"


def test_columns_of_rdjson_count_bytes():
    source = 'x = "größe"; step(closure)\n'
    begin = source.index("step") + 1
    finding = Finding("a.py", 1, "AMP913", "a closure", span=Span(1, begin, 1, begin + len("step(closure)")))
    left = Result("a.py", source.encode(), source.encode(), "left", (finding,), form="AMP010")
    (one,) = json.loads(rdjson.render(Report((left,))))["diagnostics"]
    where = one["location"]["range"]
    assert source.encode()[where["start"]["column"] - 1 : where["end"]["column"] - 1] == b"step(closure)"


def test_fixes_of_sarif_make_the_migrated_file(project):
    log = run(".", "--api", "torch.amp", "--output-format", "sarif")[1]
    (only,) = json.loads(log)["runs"]
    rules = [rule["id"] for rule in only["tool"]["driver"]["rules"]]
    assert json.loads(log)["version"] == "2.1.0"
    assert len(rules) == len(set(rules))
    for one in only["results"]:
        assert rules[one["ruleIndex"]] == one["ruleId"]
        assert one["level"] in ("note", "warning", "error")
        (location,) = one["locations"]
        assert (project / location["physicalLocation"]["artifactLocation"]["uri"]).exists()
    for path, expected in outputs(project).items():
        assert applied((project / path).read_text(), of_sarif(log, path)) == expected


def test_every_code_of_sarif_has_help_and_a_page():
    codes = [code for code, rule in RULES.items() if rule.kind != "silence"]
    findings = tuple(Finding("a.py", 1, code, "") for code in codes)
    changes = tuple(Result(f"{form}.py", b"a\n", b"b\n", "migrated", form=form) for form in TITLES)
    (only,) = json.loads(sarif.render(Report(changes, findings)))["runs"]
    driver = only["tool"]["driver"]
    assert driver["informationUri"] == REPOSITORY
    assert {rule["id"] for rule in driver["rules"]} == {*codes, *TITLES}
    for rule in driver["rules"]:
        assert rule["helpUri"] == page_of(rule["id"])
        assert "Why it matters. " in rule["help"]["text"]
        assert "**Why it matters.** " in rule["help"]["markdown"] and rule["helpUri"] in rule["help"]["markdown"]
        assert all(rule[name]["text"].strip() for name in ("shortDescription", "fullDescription"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nc\n"),  # a line goes with its end
        ("a\nb\n", "b\n"),
        ("a\nb\n", "a\n"),
        ("a\nb\nc", "a"),  # and here with the end before it
        ("a\nb\nc", "a\nc"),
        ("a\nb\nc\n", "a\n\nc\n"),  # a blank line stays
        ("a\nb\nc\n", "\nc\n"),
        ("a\n", "a\nb"),
        ("a\n", ""),
        ("a", ""),
        ("", "a\n"),
        ("a\nb\nc\nd\ne\n", "x\na\nc\nd\ny\n"),
        ("a\r\nb\r\nc\r\n", "a\r\nx\r\ny\r\n"),
        ("a\r\nb\r\nc\r\n", "a\r\nc\r\n"),
        ("a\rb\rc\r", "a\rx\ry\r"),
    ],
)
def test_suggestions_and_fixes_make_every_byte(before, after):
    report = Report((Result("a.py", before.encode(), after.encode(), "migrated", form="AMP010"),))
    assert applied(before, of_rdjson(rdjson.render(report), "a.py")) == after
    assert applied(before, of_sarif(sarif.render(report), "a.py")) == after


def test_annotations_of_github(project):
    _, stdout, _ = run(".", "--output-format", "github")
    lines = stdout.splitlines()
    assert all(
        re.fullmatch(r"::(notice|warning|error) file=[^,:]+,line=\d+(,col=\d+)?,title=[^,:]+::.+", line)
        for line in lines
    )
    assert any(line.startswith("::notice file=scripts/bce_sigmoid.py,line=") for line in lines)
    assert any(line.startswith("::error file=broken.py,line=2,title=AMP991") for line in lines)
    (closure,) = (line for line in lines if "AMP913" in line)
    assert "closure%0Awhy%3A " not in closure  # a message keeps its colons
    assert "%0Awhy: " in closure


def test_what_would_end_an_annotation_is_escaped():
    finding = Finding("a,b:c%.py", 3, "AMP104", "50%\nmore")
    (line,) = github.render(Report((), (finding,))).splitlines()
    assert line.startswith("::warning file=a%2Cb%3Ac%25.py,line=3,title=AMP104")
    assert "::50%25%0Amore%0Awhy: " in line


def test_summary_of_a_job(project, monkeypatch):
    summary = project / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    run("scripts", "--output-format", "github")
    assert summary.read_text().startswith("before\n### amp-migrate\n\n3 files would be migrated")


def test_markdown_shows_the_diff_and_how_to_apply_it(project):
    _, stdout, _ = run("scripts", "left.py", "--api", "torch.amp", "--output-format", "markdown")
    assert stdout.count("<details>") == stdout.count("</details>") == 3
    blocks = re.findall(r"```diff\n(.*?)```", stdout, re.DOTALL)
    subprocess.run(["git", "apply", "-"], input="".join(blocks).encode(), check=True)
    for path, expected in outputs(project).items():
        assert (project / path).read_text() == expected
    assert "**AMP913**" in stdout
    assert (
        "amp-migrate scripts/accumulation_window.py scripts/bce_sigmoid.py scripts/body_clip_inside.py --write"
        in stdout
    )


def test_markdown_fences_hold_what_is_in_them():
    source = b'"""\n```\n"""\n'
    report = Report((Result("a.py", source, b'"""\n````\n"""\n', "migrated", form="AMP010"),))
    assert "`````diff\n" in markdown.render(report)


def test_markdown_is_short_enough_for_a_comment():
    results = [Result(f"{n}.py", b"a\n" * 4000, b"b\n" * 4000, "migrated", form="AMP010") for n in range(9)]
    findings = tuple(Finding("a.py", 1, "AMP104", "clip" * 20) for _ in range(9))
    rendered = markdown.render(Report(tuple(results), findings))
    assert len(rendered) < 65_536
    assert "The diffs of 7 more files are too long to be shown here." in rendered
    assert rendered.count("AMP104") == 9


def test_written_files_are_not_offered_again(project):
    code, stdout, _ = run("scripts", "--write", "--output-format", "sarif")
    assert code == 0
    assert "fixes" not in stdout
    assert "apex.amp became native mixed precision" in stdout


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (b"a\nb\n", b"a\nx\nb\n", [Hunk(1, 1, ("a", "x"))]),
        (b"a\nb\n", b"x\na\nb\n", [Hunk(1, 1, ("x", "a"))]),
        (b"a\nb\nc\n", b"a\nc\n", [Hunk(2, 2, ())]),
        (b"a\r\nb\r\n", b"a\r\nc\r\n", [Hunk(2, 2, ("c",), "\r\n")]),
        (b"# coding: latin-1\n\xe9\n", b"# coding: latin-1\n\xe8\n", [Hunk(2, 2, ("è",))]),
    ],
)
def test_hunks(before, after, expected):
    assert list(hunks(Result("a.py", before, after, "migrated"))) == expected


@pytest.mark.parametrize("render", [rdjson.render, sarif.render, markdown.render, github.render])
def test_nothing_to_say(render):
    assert "AMP" not in render(Report(()))


class _Page(HTMLParser):
    """What a browser would see: text, links and their targets, headings in order, open elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.headings: list[int] = []
        self.text: list[str] = []
        self.feed(page)
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.links += [values["href"].removeprefix("#")] if "href" in values else []
        self.ids += [values["id"]] if "id" in values else []
        self.headings += [int(tag[1])] if re.fullmatch(r"h\d", tag) else []
        if tag not in ("meta", "br", "input", "wbr"):
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_page(project):
    (project / "scripts" / "näme 1%.py").write_bytes((ROOT / "apex" / "bce_sigmoid" / "before.py").read_bytes())
    code, _, _ = run(".", "--api", "torch.amp", "--report", "report.html")
    page = (project / "report.html").read_text()
    seen = _Page(page)
    assert code == 2
    assert set(seen.links) <= set(seen.ids)
    assert len(seen.ids) == len(set(seen.ids))
    assert {"scripts/bce_sigmoid.py", "scripts/n%C3%A4me%201%25.py", "left.py", "broken.py"} <= set(seen.links)
    text = "".join(seen.text)
    assert f"amp-migrate: {project.name}" in text
    assert "4 files would be migrated, 1 file left alone, 1 file not processed" in text
    for said in ("scaler.scale(loss)", "AMP913", "which GradScaler.step does not support", "AMP130", "AMP991"):
        assert said in text
    assert not re.search(r'<script|<img|<link|(src|href)="(?!#)|@import|url\(', page)


def test_page_has_headings_in_order_and_names_for_what_is_no_text(project):
    run(".", "--report", "report.html")
    page = (project / "report.html").read_text()
    headings = _Page(page).headings
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))
    assert all("aria-label=" in element for element in re.findall(r"<i [^>]*>|<nav[^>]*>", page))


def test_page_links_findings_to_the_lines_that_it_shows(project):
    run(".", "--report", "report.html")
    page = (project / "report.html").read_text()
    assert 'href="#scripts/body_clip_inside.py:18">line 18</a>' in page
    assert re.search(r'<td data-n="18" id="scripts/body_clip_inside.py:18" class="found">.*?clip_grad_norm_', page)
    # What is left alone has no change: the lines around the finding are shown instead.
    left = page.split('id="left.py"')[1].split("</details></div>")[0]
    (finding,) = re.findall(r'<span data-n="\d+" class=found>(.*?)</span><', left)
    assert "closure" in finding


def test_page_shows_both_sides_of_every_change():
    before, after = b"a = '<b>'\nb = 1\nc = 3\n", b"a = '<b>'\nb = 2  # new\nb2 = 4\nc = 3\n"
    page = html.render(Report((Result("a.py", before, after, "migrated", form="AMP010"),)), ORIGIN)
    (stretch,) = re.findall(r'<tbody class="replace">(.*?)</tbody>', page)
    rows = [re.findall(r"<td(.*?)>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", stretch)]
    assert [[(number, re.sub("<.*?>", "", text)) for number, text in row] for row in rows] == [
        [(' data-n="2"', "b = 1"), (' data-n="2"', "b = 2  # new")],
        [("", ""), (' data-n="3"', "b2 = 4")],
    ]
    assert "&lt;b&gt;" in page and "<b>'" not in page
    assert "+2</ins>" in page and "−1</del>" in page  # noqa: RUF001


def test_page_keeps_lines_beside_each_other_that_are_indented_further():
    before, after = b"a()\nb()\nc()\n", b"with x:\n    a()\n    b()\nd()\n"
    page = html.render(Report((Result("a.py", before, after, "migrated", form="AMP010"),)), ORIGIN)
    rows = re.findall("<tr>(.*?)</tr>", page.split('<table class="diff">')[1])
    cells = [[re.sub("<.*?>", "", cell) for cell in re.findall("<td.*?>(.*?)</td>", row)] for row in rows]
    assert [row for row in cells if len(row) == 2 and any(row)] == [
        ["", "with x:"],
        ["a()", "    a()"],
        ["b()", "    b()"],
        ["c()", "d()"],
    ]


def test_page_of_a_thousand_files():
    results = [Result(f"pkg{n % 20}/mod{n}.py", b"a\n", b"b\n", "migrated", form="AMP010") for n in range(1000)]
    quiet = [Result(f"pkg/quiet{n}.py", b"", b"", "untouched") for n in range(5000)]
    page = html.render(Report((*results, *quiet)), ORIGIN)
    assert page.count('<details class="file migrated">') == 1000  # folded: the names fit on a few screens
    assert "5000 with nothing to do" in page
    assert len(page) < 2_000_000


def test_page_with_names_that_are_no_text(tmp_path):
    name = os.fsdecode(b"b\xff\n<i>.py")
    page = html.render(Report((Result(name, b"a\n", b"b\n", "migrated", form="AMP010"),)), ORIGIN)
    (tmp_path / "page.html").write_text(page, encoding="utf-8", errors="replace")
    assert 'href="#b%FF%0A%3Ci%3E.py"' in page
    assert "<i>.py" not in page


def test_the_tree_of_a_page_joins_folders_that_hold_one_thing():
    paths = ("a/b/c/train.py", "a/b/c/eval.py", "d/e/one.py")
    page = html.render(Report(tuple(Result(path, b"a\n", b"b\n", "migrated", form="AMP010") for path in paths)), ORIGIN)
    tree = page.split("<nav")[1].split("</nav>")[0]
    assert "<summary>a/b/c/ <small>2</small>" in tree
    assert "</i>d/<wbr>e/<wbr>one.py</a>" in tree
    assert '<li data-has="migrated"><details' in tree


def test_a_folder_of_the_tree_says_what_is_in_it_and_is_asked_by_the_filters():
    """In words, for the style sheet: to look for them in a tree of thousands of files takes browsers seconds."""
    loud = Result("a/b/left.py", b"a\n", b"a\n", "left", (Finding("a/b/left.py", 1, "AMP913", "a closure"),))
    page = html.render(Report((loud, Result("a/quiet.py", b"", b"", "untouched"))), ORIGIN)
    assert '<li data-has="left look untouched"><details open><summary>a/ <small>1</small>' in page
    assert "[data-has~=left]" in page
    assert "body:has" not in page


def test_tiles_of_a_page_count_every_file_once(project):
    run(".", "--report", "report.html")
    page = (project / "report.html").read_text()
    tiles = {name: int(count) for name, count in re.findall(r'class="tile (\w+)">.*?<b>(\d+)</b>', page)}
    assert tiles.pop("look") == 3
    assert tiles.pop("all") == sum(tiles.values()) == 5
    for name, count in tiles.items():
        assert len(re.findall(rf'<details class="file {name}[ "]', page)) == count
        assert f"fieldset:has(#show-{name}:checked)" in page


@pytest.mark.parametrize("source", ["x = 1\nprint('é')\n", 'a = """\nb\n"""\n', "def f(:\n", "\t\x0c'\n", ""])
def test_colours_change_no_line(source):
    lines = [re.sub("<.*?>", "", line) for line in coloured_lines(source)]
    assert [unescape(line) for line in lines] == source.split("\n")
