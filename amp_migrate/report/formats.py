"""The output formats beside text: each is a file with a function `render`, imported when it is asked for."""

from __future__ import annotations

import importlib

from amp_migrate.report.model import Report

FORMATS = ("json", "github", "rdjson", "sarif", "markdown")


def rendered(report: Report, output_format: str) -> str:
    """The report in one of the formats."""
    text: str = importlib.import_module(f"amp_migrate.report.{output_format}").render(report)
    return text
