"""`--output-format github`: annotations of a workflow, and the summary of its job.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.report import markdown
from amp_migrate.report.diff import repository_path
from amp_migrate.report.model import Report
from amp_migrate.report.wording import change, in_full, severity

_COMMANDS = {"note": "notice", "warning": "warning", "error": "error"}


def render(report: Report) -> str:
    """The annotations. Where the job has a summary, the report is added to it."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(markdown.render(report) + "\n")
    return commands(report)


def commands(report: Report) -> str:
    """What shows at the lines of the files."""
    return "".join(f"{line}\n" for line in (*_changes(report), *_findings(report)))


def _changes(report: Report) -> Iterator[str]:
    for form, result in report.changes():
        message = change(form, written=report.written)
        yield _annotation("notice", result.path, result.first_line, f"{form} amp-migrate", message)


def _findings(report: Report) -> Iterator[str]:
    for finding in report.findings:
        title = f"{finding.code} {finding.rule.title}"
        column = finding.span.column if finding.span is not None and finding.cell is None else None
        yield _annotation(_COMMANDS[severity(finding)], finding.path, finding.line, title, in_full(finding), column)


def _annotation(command: str, path: str, line: int, title: str, message: str, column: int | None = None) -> str:
    properties = {"file": repository_path(path), "line": str(line)}
    properties |= {"col": str(column)} if column is not None else {}
    properties |= {"title": title}
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{command} {written}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
