"""The output formats beside text: each is a file with a function `render`."""

from __future__ import annotations

from collections.abc import Callable

from amp_migrate.report import github, json, markdown, rdjson, sarif
from amp_migrate.report.model import Report

FORMATS: dict[str, Callable[[Report], str]] = {
    "json": json.render,
    "github": github.render,
    "rdjson": rdjson.render,
    "sarif": sarif.render,
    "markdown": markdown.render,
}
