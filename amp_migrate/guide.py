"""The page that `amp-migrate guide` prints, and what of it the briefs of refused units quote."""

from __future__ import annotations

import re
from pathlib import Path

# A skill for coding agents, in its usual form: a folder of this name, and a front matter that says when to use it.
SKILL = Path(__file__).parent / "skills" / "amp-migrate" / "SKILL.md"
_RULE = re.compile(r"^\d+\. \*\*([\w ]+?)\.\*\* ((?:.*\n)(?:   +.*\n)*)", re.MULTILINE)


def text() -> str:
    """All of it."""
    return SKILL.read_text(encoding="utf-8")


def rules() -> dict[str, str]:
    """What an edit by hand has to keep, each rule on one line, by the word that it begins with."""
    return {found[1]: f"{found[1]}: {' '.join(found[2].split())}" for found in _RULE.finditer(text())}
