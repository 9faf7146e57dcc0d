"""The links of a document in Markdown, and the anchors that others can link to."""

from __future__ import annotations

import re
from pathlib import Path

_BLOCK = r"^(?P<fence>```+|~~~+).*?^(?P=fence)"
_WORDS = r"(?P<tick>`+)(?!`).*?(?<!`)(?P=tick)(?!`)"
_CODE = re.compile(f"{_BLOCK}|{_WORDS}", re.DOTALL | re.MULTILINE)
_LINK = re.compile(
    r"""\]\(<?(?P<inline>[^)\s>]+)          # [text](target), ![picture](target)
    |^\[[^\]]+\]:\s*<?(?P<reference>[^\s>]+)  # [name]: target
    |\b(?:href|src|srcset)="(?P<html>[^"]+)"
    |<(?P<plain>https?://[^>\s]+)>""",
    re.MULTILINE | re.VERBOSE,
)


def links(markdown: str) -> list[str]:
    """Where the links of a document lead to, as they are written."""
    found = _LINK.finditer(_CODE.sub("", markdown))
    return [next(filter(None, match.groups())) for match in found]


def code(markdown: str) -> list[str]:
    """The code in a document, blocks and words."""
    return [match[0] for match in _CODE.finditer(markdown)]


def anchors(markdown: str) -> set[str]:
    """The headings of a document, as GitHub and MkDocs name them in addresses."""
    without_blocks = re.sub(_BLOCK, "", markdown, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ +(.+?)\s*$", without_blocks, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def target(link: str, document: Path) -> Path:
    """The file that a relative link of a document leads to."""
    path = link.partition("#")[0]
    return document.parent / path if path else document


def is_there(link: str, document: Path) -> bool:
    """True for a relative link whose file exists, with the heading that it names."""
    file, anchor = target(link, document), link.partition("#")[2]
    return file.exists() and (not anchor or anchor in anchors(file.read_text(encoding="utf-8")))
