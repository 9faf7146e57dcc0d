"""An HTML document that loads nothing and has no script."""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files

# What the two pages share: how they came about, the figures and verdicts of `verify`.
CURVES_STYLE = files(__package__).joinpath("curves.css").read_text(encoding="utf-8")

# The policy makes the browser refuse whatever an escape that was forgotten might let in.
_DOCUMENT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def prose(text: str) -> str:
    """A sentence of ours as HTML: what stands in backquotes is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def document(title: str, style: str, body: str) -> str:
    """A whole document; `body` is HTML already, `title` is text."""
    return _DOCUMENT.format(title=escape(title), style=style, body=body)
