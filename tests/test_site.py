"""The site that MkDocs builds from `docs/`: it is where the program says, and it has every page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from amp_migrate.home import DOCS, REPOSITORY, page_of
from tests.fixture import ROOT

FOLDER = ROOT.parent / "docs"
SITE: dict[str, Any] = yaml.safe_load((ROOT.parent / "mkdocs.yml").read_text(encoding="utf-8"))


def listed(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for content in entry.values():
            yield from listed(content) if isinstance(content, list) else [content]


def test_it_is_where_the_program_says():
    assert (SITE["site_url"], SITE["repo_url"]) == (f"{DOCS}/", REPOSITORY)
    assert SITE.get("use_directory_urls", True)
    assert page_of("AMP104") == f"{SITE['site_url']}rules/AMP104/"
    assert (FOLDER / "rules" / "AMP104.md").exists()


def test_every_page_is_listed_but_those_of_the_codes():
    pages = {file.relative_to(FOLDER).as_posix() for file in FOLDER.rglob("*.md") if not file.match("rules/AMP*.md")}
    assert sorted(listed(SITE["nav"])) == sorted(pages)
    assert SITE["not_in_nav"] == "/rules/AMP*.md"
