"""The structure of both pages: what somebody needs who does not see them, or uses no mouse."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from amp_migrate.check.proof.result import Assumption, Proof
from amp_migrate.findings import Finding
from amp_migrate.report import html as report
from amp_migrate.report.file_section import Run
from amp_migrate.report.model import Report
from amp_migrate.result import Result
from amp_migrate.verify.report import html as verify
from tests.test_report import ORIGIN
from tests.test_verify_report import KINDS, comparison

pytest.importorskip("matplotlib")

_VOID = {"meta", "br", "input", "img", "wbr"}
_INTERACTIVE = {"a", "button", "input", "select", "textarea", "label", "details"}
_NAMES = {"aria-label", "aria-labelledby", "title", "alt"}
Attributes = dict[str, str]


class Structure(HTMLParser):
    """All elements, each with the names of those around it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._open: list[str] = []
        self.elements: list[tuple[str, Attributes, tuple[str, ...]]] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}, tuple(self._open)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def all(self, *tags: str) -> list[tuple[Attributes, tuple[str, ...]]]:
        return [(attributes, around) for tag, attributes, around in self.elements if tag in tags]


def result(path: str, status: str, *findings: Finding, unit: tuple[str, ...] = ()) -> Result:
    source, output = b"import apex\na = 1\nb = 2\nc = 3\n", b"import torch\na = 1\nb = 3\nc = 3\n"
    changed = status == "migrated"
    return Result(
        path,
        source,
        output if changed else source,
        status,
        findings,
        sites=2,
        form="AMP010",
        unit=tuple((one, "imports it") for one in unit),
        proof=Proof((), (Assumption("src/a.py", 2, "it is called once"),)) if changed else None,
    )


def one_file() -> str:
    return report.render(Report((result("train.py", "migrated"),)), ORIGIN)


def nothing() -> str:
    return report.render(Report(()), ORIGIN)


def folder() -> str:
    """With a unit, findings of every severity on changed and on other lines, a quiet file, runs, and requirements."""
    unit = ("src/a.py", "src/b.py")
    results = (
        result("src/a.py", "migrated", Finding("src/a.py", 1, "AMP104", "a clip"), unit=unit),
        result("src/b.py", "migrated", Finding("src/b.py", 3, "AMP118", "a level"), unit=unit),
        result("deep/er/c.py", "left", Finding("deep/er/c.py", 2, "AMP913", "a closure")),
        result("deep/er/d.py", "error", Finding("deep/er/d.py", 1, "AMP991", "no Python")),
        Result("deep/quiet.py", b"", b"", "untouched"),
    )
    runs = {
        one.path: [Run(kind, verify.section(dataclasses.replace(comparison(kind), command=f"verify {one.path}")))]
        for one, kind in zip(results, ("same", "different"), strict=False)
    }
    beside = (Finding("requirements.txt", 1, "AMP130", "asks for apex"),)
    return report.render(Report(results, beside), ORIGIN, runs)


PAGES = {"one file": one_file, "nothing": nothing, "folder": folder} | {
    f"verify, {kind}": lambda kind=kind: verify.page(comparison(kind), ORIGIN) for kind in KINDS
}


@pytest.fixture(params=PAGES, scope="module")
def page(request) -> Structure:
    return Structure(PAGES[request.param]())


def test_everything_is_in_a_landmark(page):
    assert len(page.all("main")) == len(page.all("header")) == len(page.all("h1")) == 1
    for tag, attributes, around in page.elements:
        if around == ("html", "body"):
            assert tag in ("header", "main", "footer") or attributes.get("class") == "skip"


def test_a_summary_is_one_button(page):
    inside = [tag for tag, attributes, around in page.elements if "summary" in around]
    assert not set(inside) & _INTERACTIVE
    assert all("tabindex" not in attributes for _, attributes, around in page.elements if "summary" in around)
    assert all(around[-1] == "details" for _, around in page.all("summary"))
    assert len(page.all("summary")) == len(page.all("details"))


def test_headings_are_in_order(page):
    levels = [int(tag[1]) for tag, _, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_pictures_have_names(page):
    pictures = [attributes for tag, attributes, _ in page.elements if tag in ("img", "svg") or "role" in attributes]
    assert all(attributes.get("role", "img") in ("img", "region") for attributes in pictures)
    assert all(any(attributes.get(name) for name in _NAMES) for attributes in pictures)


def test_ids_are_unique_and_links_have_targets(page):
    ids = Counter(attributes["id"] for _, attributes, _ in page.elements if "id" in attributes)
    assert all(count == 1 for count in ids.values())
    links = [value for _, attributes, _ in page.elements for name, value in attributes.items() if name.endswith("href")]
    assert {link.removeprefix("#") for link in links} <= set(ids)


def test_tables_have_headers(page):
    for attributes, around in page.all("th"):
        assert attributes.get("scope") in ("col", "row", "colgroup", "rowgroup")
        assert "thead" in around or attributes["scope"] not in ("col", "colgroup")
    heads = len(page.all("thead"))
    assert len(page.all("table")) == heads


def test_language_and_policy(page):
    (html,) = page.all("html")
    assert html[0] == {"lang": "en"}
    policies = [one["content"] for one, _ in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_what_scrolls_sideways_can_be_reached_with_keys():
    (scroll,) = (one for _, one, _ in Structure(folder()).elements if one.get("class") == "wide")
    assert scroll["tabindex"] == "0"
    assert scroll["role"] == "region"
