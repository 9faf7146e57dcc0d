"""Writes the pages of docs/rules from the texts of `amp-migrate explain`: `python -m tests.rule_pages`."""

from __future__ import annotations

from amp_migrate.explain.page import explained, page, title
from tests.fixture import ROOT

FOLDER = ROOT.parent / "docs" / "rules"


def pages() -> dict[str, str]:
    """The content of each page, by the name of its file."""
    rows = "".join(f"| [{code}]({code}.md) | {title(code)} |\n" for code in explained())
    index = (
        f"# Codes\n\n`amp-migrate explain CODE` shows these pages in a terminal.\n\n| Code | |\n| --- | --- |\n{rows}"
    )
    return {"index.md": index, **{f"{code}.md": page(code) for code in explained()}}


def main() -> None:
    """Write what has changed, and take away the pages of codes that are gone."""
    FOLDER.mkdir(exist_ok=True)
    wanted = pages()
    for file in FOLDER.iterdir():
        if file.name not in wanted:
            file.unlink()
    for name, content in wanted.items():
        (FOLDER / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
