"""What codes mean, for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

from amp_migrate.explain.page import EXAMPLES, title
from amp_migrate.forms import FORMS
from amp_migrate.home import page_of
from amp_migrate.report.wording import severity_of
from amp_migrate.rules.catalogue import RULES


def render(code: str) -> str:
    """One code, as an object."""
    return json.dumps(_explained(code), indent=2) + "\n"


def render_all(codes: Iterable[str]) -> str:
    """Some codes, as a list."""
    return json.dumps([_explained(code) for code in codes], indent=2) + "\n"


def _explained(code: str) -> dict[str, Any]:
    """`example` is a script that leads to the code. A source form says what becomes of it and when it stays instead of
    what to do. `cases` are those in which other words fit.
    """
    example = EXAMPLES / f"{code}.txt"
    known: dict[str, Any] = {"code": code, "title": title(code), "url": page_of(code)}
    if code in FORMS:
        form = FORMS[code]
        known |= {"kind": "form", "severity": "note", "what": form.what, "why": form.why, "stays": form.stays}
    else:
        rule = RULES[code]
        known |= {"kind": rule.kind, "severity": severity_of(rule.kind), "why": rule.why, "what_to_do": rule.what_to_do}
        known["cases"] = [dataclasses.asdict(case) for case in rule.cases.values()]
    return {**known, "example": example.read_text(encoding="utf-8") if example.exists() else None}
