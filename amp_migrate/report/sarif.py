"""`--output-format sarif`: SARIF 2.1.0, for code scanning.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from amp_migrate import __version__
from amp_migrate.report.diff import repository_path
from amp_migrate.report.hunks import hunks
from amp_migrate.report.model import Report
from amp_migrate.report.wording import change, in_full, severity
from amp_migrate.result import Result
from amp_migrate.rules import RULES
from amp_migrate.selection import TITLES

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(report: Report) -> str:
    """A result for each file that changes, with its fix, and one for each finding."""
    results = [*_changes(report), *_findings(report)]
    known = sorted({one["ruleId"] for one in results})
    for one in results:
        one["ruleIndex"] = known.index(one["ruleId"])
    driver = {
        "name": "amp-migrate",
        "version": __version__,
        "rules": [_rule(code) for code in known],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str) -> dict[str, Any]:
    if code not in RULES:
        return {"id": code, "shortDescription": {"text": f"{TITLES[code]} becomes native mixed precision"}}
    rule = RULES[code]
    return {
        "id": code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.what_to_do, "markdown": rule.what_to_do},
    }


def _changes(report: Report) -> Iterator[dict[str, Any]]:
    for form, result in report.changes():
        found = _result(form, "note", change(form, written=report.written), result.path, result.first_line)
        yield found if report.written else {**found, "fixes": [_fix(result)]}


def _fix(result: Result) -> dict[str, Any]:
    replacements = [
        {
            "deletedRegion": {"startLine": hunk.first, "endLine": hunk.last},
            "insertedContent": {"text": hunk.text},
        }
        for hunk in hunks(result)
    ]
    location = {"uri": _uri(result.path)}
    return {
        "description": {"text": "migrate to native mixed precision"},
        "artifactChanges": [{"artifactLocation": location, "replacements": replacements}],
    }


def _findings(report: Report) -> Iterator[dict[str, Any]]:
    for finding in report.findings:
        yield _result(finding.code, severity(finding), in_full(finding), finding.path, finding.line)


def _result(code: str, level: str, message: str, path: str, line: int) -> dict[str, Any]:
    location = {"artifactLocation": {"uri": _uri(path)}, "region": {"startLine": line}}
    return {
        "ruleId": code,
        "level": level,
        "message": {"text": message},
        "locations": [{"physicalLocation": location}],
    }


def _uri(path: str) -> str:
    return quote(os.fsencode(repository_path(path)))  # bytes: not every name is UTF-8
