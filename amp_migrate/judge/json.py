"""`judge --output-format json`: everything, for programs. The schema is `docs/judge.schema.json`."""

from __future__ import annotations

import json
from typing import Any

from amp_migrate import __version__
from amp_migrate.judge.judgement import Judgement, Line, Objection

# Raised where a key changes its meaning or goes; new keys may come at any time.
SCHEMA_VERSION = 1


def render(judgement: Judgement) -> str:
    """The judgement as an object."""
    data = {
        "version": SCHEMA_VERSION,
        "tool": {"name": "amp-migrate", "version": __version__},
        "verdict": judgement.verdict,
        "because": judgement.because,
        "files": list(judgement.files),
        "proved": list(judgement.proved),
        "assumed": [{"path": one.path, "line": one.line, "what": one.what} for one in judgement.assumed],
        "ignored": judgement.ignored,
        "findings": [_finding(one) for one in judgement.objections],
    }
    return json.dumps(data, indent=2) + "\n"


def _finding(one: Objection) -> dict[str, Any]:
    rule, finding = one.rule, one.as_finding
    return {
        "path": one.path,
        "line": one.line,
        "cell": _cell(one.cell),
        "code": one.code,
        "kind": rule.kind,
        "is_wrong": one.is_wrong,
        "function": one.function,
        "before": _side(one.before),
        "after": _side(one.after),
        "title": rule.title,
        "message": one.message,
        "why": finding.why,
        "what_to_do": finding.what_to_do,
    }


def _side(line: Line | None) -> dict[str, Any] | None:
    return {"line": line.line, "cell": _cell(line.cell), "text": line.text} if line is not None else None


def _cell(cell: tuple[int, int] | None) -> dict[str, int] | None:
    return dict(zip(("number", "line"), cell, strict=True)) if cell is not None else None
