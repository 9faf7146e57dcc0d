"""`--output-format rdjson`: reviewdog's Diagnostic Format, whose suggestions become "commit suggestion" buttons.

https://github.com/reviewdog/reviewdog/tree/master/proto/rdf: a range without columns means whole lines, but not the
end of the last one, and columns count bytes. A suggestion is shown where its range is that of the diagnostic.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from amp_migrate.findings import Finding
from amp_migrate.home import REPOSITORY, page_of
from amp_migrate.report.diff import repository_path
from amp_migrate.report.hunks import Hunk, hunks, text_of
from amp_migrate.report.model import Report
from amp_migrate.report.wording import change, in_full, severity

_SEVERITIES = {"note": "INFO", "warning": "WARNING", "error": "ERROR"}


def render(report: Report) -> str:
    """A diagnostic for each change, with the lines in its place, and one for each finding."""
    diagnostics = [*_changes(report), *_findings(report)]
    source = {"name": "amp-migrate", "url": REPOSITORY}
    return json.dumps({"source": source, "diagnostics": diagnostics}, indent=2) + "\n"


def _changes(report: Report) -> Iterator[dict[str, Any]]:
    for form, result in report.changes():
        for hunk in hunks(result):
            yield {
                "message": change(form, written=report.written),
                "location": {"path": repository_path(result.path), "range": _lines(hunk)},
                "severity": "INFO",
                "code": {"value": form, "url": page_of(form)},
                "suggestions": [{"range": _lines(hunk), "text": hunk.text}],
            }


def _lines(hunk: Hunk) -> dict[str, Any]:
    """Whole lines; those that go, up to the beginning of the next one: with their ends."""
    if hunk.lines:
        return {"start": {"line": hunk.first}, "end": {"line": hunk.last}}
    return {"start": {"line": hunk.first, "column": 1}, "end": {"line": hunk.last + 1, "column": 1}}


def _findings(report: Report) -> Iterator[dict[str, Any]]:
    sources = {result.path: result.source for result in report.results}
    for finding in report.findings:
        yield {
            "message": in_full(finding),
            "location": {"path": repository_path(finding.path), "range": _range(finding, sources)},
            "severity": _SEVERITIES[severity(finding)],
            "code": {"value": finding.code, "url": page_of(finding.code)},
        }


def _range(finding: Finding, sources: Mapping[str, bytes]) -> dict[str, Any]:
    """To the column behind the last byte; a line alone where the columns are not known, or those of a cell."""
    span = finding.span
    if span is None or finding.cell is not None:
        return {"start": {"line": finding.line}}
    lines = text_of(sources.get(finding.path, b"")).split("\n")

    def position(line: int, column: int) -> dict[str, int]:
        text = lines[line - 1] if line <= len(lines) else ""
        return {"line": line, "column": len(text[: column - 1].encode("utf-8", "replace")) + 1}

    return {"start": position(span.line, span.column), "end": position(span.end_line, span.end_column)}
