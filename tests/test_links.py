"""No link of a document is dead: on GitHub, and on the site that is built from `docs/`."""

from __future__ import annotations

import re
from pathlib import Path

from amp_migrate.home import DOCS, REPOSITORY
from tests.fixture import ROOT
from tests.links import anchors, code, is_there, links, target

FOLDER = ROOT.parent
SITE = FOLDER / "docs"
DOCUMENTS = sorted([*FOLDER.glob("*.md"), *FOLDER.glob(".github/**/*.md"), *SITE.rglob("*.md")])
OURS = (f"{REPOSITORY}/blob/main/", f"{REPOSITORY}/tree/main/")


def dead(document: Path) -> list[str]:
    """Links of a document to files or headings that do not exist. The site has no files from outside of `docs/`."""
    found = []
    for link in links(document.read_text(encoding="utf-8")):
        ours = next((link.removeprefix(prefix) for prefix in OURS if link.startswith(prefix)), None)
        if ours is not None:
            is_dead = not is_there(ours, FOLDER / "README.md")
        elif link.startswith(DOCS):
            is_dead = not _page(link)
        elif link.startswith(("https://", "http://", "mailto:")):
            is_dead = False
        else:
            is_dead = not is_there(link, document) or _is_not_on_the_site(link, document)
        if is_dead:
            found.append(link)
    return found


def _page(link: str) -> bool:
    path, _, anchor = link.removeprefix(DOCS).strip("/").partition("#")
    path = path.rstrip("/")
    candidates = [SITE / f"{path}.md", SITE / path / "index.md"] if path else [SITE / "index.md"]
    return any(file.exists() and (not anchor or is_there(f"#{anchor}", file)) for file in candidates)


def _is_not_on_the_site(link: str, document: Path) -> bool:
    """True for a link from a page of the site to a folder, or to what is not below `docs/`."""
    file = target(link, document).resolve()
    return document.is_relative_to(SITE) and (file.is_dir() or not file.is_relative_to(SITE))


def test_every_link_leads_somewhere():
    found = {document.relative_to(FOLDER).as_posix(): dead(document) for document in DOCUMENTS}
    assert {name: links for name, links in found.items() if links} == {}


def test_every_file_that_contributors_are_sent_to_exists():
    named = code((FOLDER / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    paths = {one.strip("`") for one in named if re.fullmatch(r"`[a-z_.-]+/[\w./-]+`", one)}
    modules = {f"tests/{name}" for one in named for name in re.findall(r"python -m tests\.(\w+)", one)}
    assert len(paths) > 20 and len(modules) > 4
    with_placeholder = {one for one in paths if re.search(r"/[A-Z]+\b(?!\.)", one)}
    assert [one for one in sorted(paths - with_placeholder) if not (FOLDER / one).exists()] == []
    assert [one for one in sorted(modules) if not list(FOLDER.glob(f"{one}*"))] == []


def test_dead_links_are_found(tmp_path):
    (tmp_path / "other.md").write_text("# The `name` of it\n\n```sh\n# no heading\n```\n")
    document = tmp_path / "document.md"
    text = "[a](other.md) [b](other.md#the-name-of-it) `[c](gone.md)`\n```\n[d](gone.md)\n```\n<https://example.org/>\n"
    document.write_text(text)
    assert dead(document) == []
    wrong = [
        "gone.md",
        "other.md#no-heading",
        "#nowhere",
        f"{OURS[0]}gone.md",
        f"{DOCS}/gone/",
        f"{DOCS}/judge/#nowhere",
    ]
    for link in wrong:
        document.write_text(f"{text}[e]({link})\n")
        assert dead(document) == [link]
    document.write_text(f'{text}[ref]: gone.md\n<img src="gone.png">\n[f]({DOCS}/rules/AMP104/)\n')
    assert dead(document) == ["gone.md", "gone.png"]


def test_what_is_not_on_the_site():
    page = SITE / "results" / "README.md"
    assert all(_is_not_on_the_site(link, page) for link in ("../../README.md", "../rules"))
    assert not any(_is_not_on_the_site(link, page) for link in ("../judge.md", "#options"))


def test_anchors():
    assert anchors("# A b-c (d_e)\n") == {"a-b-c-d_e"}
