"""`--output-format rdjson`: reviewdog's Diagnostic Format, whose suggestions become "commit suggestion" buttons.

https://github.com/reviewdog/reviewdog/tree/master/proto/rdf: a range without columns means whole lines, and a
suggestion is shown where its range is that of the diagnostic.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from amp_migrate.report.diff import repository_path
from amp_migrate.report.hunks import hunks
from amp_migrate.report.model import Report
from amp_migrate.report.wording import change, in_full, severity

_SEVERITIES = {"note": "INFO", "warning": "WARNING", "error": "ERROR"}


def render(report: Report) -> str:
    """A diagnostic for each change, with the lines in its place, and one for each finding."""
    diagnostics = [*_changes(report), *_findings(report)]
    return json.dumps({"source": {"name": "amp-migrate"}, "diagnostics": diagnostics}, indent=2) + "\n"


def _changes(report: Report) -> Iterator[dict[str, Any]]:
    for form, result in report.changes():
        for hunk in hunks(result):
            lines = {"start": {"line": hunk.first}, "end": {"line": hunk.last}}
            yield {
                "message": change(form, written=report.written),
                "location": {"path": repository_path(result.path), "range": lines},
                "severity": "INFO",
                "code": {"value": form},
                "suggestions": [{"range": lines, "text": hunk.text}],
            }


def _findings(report: Report) -> Iterator[dict[str, Any]]:
    for finding in report.findings:
        yield {
            "message": in_full(finding),
            "location": {"path": repository_path(finding.path), "range": {"start": {"line": finding.line}}},
            "severity": _SEVERITIES[severity(finding)],
            "code": {"value": finding.code},
        }
