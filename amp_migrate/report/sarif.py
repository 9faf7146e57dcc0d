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
from amp_migrate.forms import FORMS
from amp_migrate.home import REPOSITORY, page_of
from amp_migrate.report.diff import repository_path
from amp_migrate.report.hunks import Hunk, hunks
from amp_migrate.report.model import Report
from amp_migrate.report.wording import change, in_full, sentence, severity
from amp_migrate.result import Result
from amp_migrate.rules.catalogue import RULES
from amp_migrate.rules.source_forms import TITLES

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
        "informationUri": REPOSITORY,
        "rules": [_rule(code) for code in known],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str) -> dict[str, Any]:
    """What a code means. A finding may have the code of a source form, as a plain loop has that could be migrated."""
    if code in FORMS:
        form = FORMS[code]
        title, what, parts = f"{TITLES[code]} becomes native mixed precision", form.what, [form.why, form.stays]
        heads = ("Why it matters.", "When it stays.")
    else:
        rule = RULES[code]
        title, what, parts = rule.title, rule.why, [rule.why, rule.what_to_do]
        heads = ("Why it matters.", "What to do by hand.")
    said = [(head, sentence(part)) for head, part in zip(heads, parts, strict=True)]
    link = page_of(code)
    return {
        "id": code,
        "shortDescription": {"text": title},
        "fullDescription": {"text": sentence(what)},
        "helpUri": link,
        "help": {
            "text": "\n".join(f"{head} {part}" for head, part in said),
            "markdown": "\n\n".join([*(f"**{head}** {part}" for head, part in said), f"[{code}]({link})"]),
        },
    }


def _changes(report: Report) -> Iterator[dict[str, Any]]:
    for form, result in report.changes():
        found = _result(form, "note", change(form, written=report.written), result.path, result.first_line)
        yield found if report.written else {**found, "fixes": [_fix(result)]}


def _fix(result: Result) -> dict[str, Any]:
    replacements = [
        {
            "deletedRegion": _lines(hunk),
            "insertedContent": {"text": hunk.text},
        }
        for hunk in hunks(result)
    ]
    location = {"uri": _uri(result.path)}
    return {
        "description": {"text": "migrate to native mixed precision"},
        "artifactChanges": [{"artifactLocation": location, "replacements": replacements}],
    }


def _lines(hunk: Hunk) -> dict[str, int]:
    """Whole lines but for the end of the last one; those that go, up to the beginning of the next one."""
    if hunk.lines:
        return {"startLine": hunk.first, "endLine": hunk.last}
    return {"startLine": hunk.first, "startColumn": 1, "endLine": hunk.last + 1, "endColumn": 1}


def _findings(report: Report) -> Iterator[dict[str, Any]]:
    for finding in report.findings:
        found = _result(finding.code, severity(finding), in_full(finding), finding.path, finding.line)
        span = finding.span
        if span is not None and finding.cell is None:  # columns of a cell are none of the notebook
            region = found["locations"][0]["physicalLocation"]["region"]
            region |= {"startColumn": span.column, "endLine": span.end_line, "endColumn": span.end_column}
        yield found


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
