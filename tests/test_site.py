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


def test_every_page_is_listed_but_those_of_the_codes_and_of_the_gpus():
    pages = {file.relative_to(FOLDER).as_posix() for file in FOLDER.rglob("*.md")}
    found_otherwise = {page for page in pages if page.startswith(("rules/AMP", "results/20"))}
    assert sorted(listed(SITE["nav"])) == sorted(pages - found_otherwise)
    assert SITE["not_in_nav"].split() == ["/rules/AMP*.md", "/results/20*.md"]


def test_every_result_of_a_gpu_is_linked():
    text = (FOLDER / "results" / "README.md").read_text(encoding="utf-8")
    results = [file.name for file in (FOLDER / "results").glob("20*.md")]
    assert results and all(f"({name})" in text for name in results)
