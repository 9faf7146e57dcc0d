"""The Markdown of our own pages for a terminal: headings, paragraphs and code blocks, and no more of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TextIO

from amp_migrate.explain.page import page
from amp_migrate.report.colours import terminal_lines
from amp_migrate.report.diff import coloured
from amp_migrate.report.terminal import BOLD, CYAN, UNDERLINED, Look, look_of

_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$|^#+ (?P<heading>[^\n]+)$|(?P<text>[^\n]+)", re.M | re.S)
_INLINE = re.compile(r"\*\*(?P<bold>.+?)\*\*|`(?P<code>[^`]+)`|<(?P<link>https?://[^>]+)>", re.S)
_INDENT = "    "


def page_for(code: str, stream: TextIO) -> str:
    """The page of a code: for a terminal, or in Markdown. Raises KeyError for an unknown one."""
    return "\n".join(rendered(page(code), look_of(stream))) + "\n" if stream.isatty() else page(code)


def rendered(markdown: str, look: Look) -> Iterator[str]:
    """The lines of a page, a blank one between two blocks. Code is indented and stays as it is."""
    for number, block in enumerate(_BLOCK.finditer(markdown)):
        yield from [""] if number else []
        if block["heading"]:
            yield look.paint(block["heading"], BOLD)
        elif block["text"]:
            wrapped = "\n".join(look.hanging("", block["text"]))
            yield from _INLINE.sub(lambda part: _painted(part, look), wrapped).split("\n")
        else:
            yield from (f"{_INDENT}{line}".rstrip() for line in _code(block["language"], block["code"], look))


def _code(language: str, code: str, look: Look) -> list[str]:
    if language == "python":
        return terminal_lines(code.removesuffix("\n"), look)
    return (coloured(code) if language == "diff" and look.has_colours else code).removesuffix("\n").split("\n")


def _painted(part: re.Match[str], look: Look) -> str:
    """What is bold, code or a link. Code keeps its marks where there is no colour that tells it from words."""
    if part["bold"]:
        return look.paint(part["bold"], BOLD)
    if part["link"]:
        return look.paint(part["link"], UNDERLINED)
    return look.paint(part["code"], CYAN) if look.has_colours else part[0]
