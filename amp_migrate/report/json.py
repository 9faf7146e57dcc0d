"""`--output-format json`: everything, for programs. The schema is `docs/report.schema.json`."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from amp_migrate import __version__
from amp_migrate.findings import Finding
from amp_migrate.proved import proved
from amp_migrate.report.brief import briefs
from amp_migrate.report.diff import unified_diff
from amp_migrate.report.model import Report
from amp_migrate.result import Result
from amp_migrate.rules.source_forms import TITLES

# Raised where a key changes its meaning or goes; new keys may come at any time.
SCHEMA_VERSION = 1


def render(report: Report) -> str:
    """Files with nothing to do and nothing to say are counted and not listed."""
    data = {
        "version": SCHEMA_VERSION,
        "tool": {"name": "amp-migrate", "version": __version__},
        "written": report.written,
        "summary": {
            "files": report.files(),
            "ignored": report.ignored,
            "forms": [
                {"code": form, "title": TITLES[form], **dataclasses.asdict(tally)} for form, tally in report.forms()
            ],
        },
        "files": [_file(one) for one in report.results if one.status != "untouched" or one.findings],
        "findings": [_finding(one) for one in report.beside],
        "briefs": briefs(report),
    }
    return json.dumps(data, indent=2) + "\n"


def _file(result: Result) -> dict[str, Any]:
    diff = unified_diff(result.path, result.source, result.output).decode("utf-8", "replace") if result.changed else ""
    return {
        "path": result.path,
        "status": result.status,
        "form": result.form,
        "uses": result.sites,
        "companions": {"found": result.companions[0], "left": result.companions_left},
        "proof": _proof(result),
        "unit": [{"path": path, "reason": reason} for path, reason in result.unit],
        "findings": [_finding(one) for one in result.findings],
        "diff": diff,
    }


def _proof(result: Result) -> dict[str, Any] | None:
    """What was shown of its unit; None for a file in which nothing changes."""
    if result.proof is None:
        return None
    assumed = [dataclasses.asdict(one) for one in result.proof.assumptions]
    return {"proved": proved(), "assumed": assumed}


def _finding(finding: Finding) -> dict[str, Any]:
    rule, span = finding.rule, finding.span
    return {
        "path": finding.path,
        "line": finding.line,
        "column": span.column if span is not None else None,
        "end_line": span.end_line if span is not None else None,
        "end_column": span.end_column if span is not None else None,
        "cell": dict(zip(("number", "line"), finding.cell, strict=True)) if finding.cell is not None else None,
        "code": finding.code,
        "kind": rule.kind,
        "title": rule.title,
        "message": finding.message,
        "why": finding.why,
        "what_to_do": finding.what_to_do,
    }
