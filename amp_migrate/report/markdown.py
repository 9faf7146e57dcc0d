"""`--output-format markdown`: a comment for a pull request, or a job's summary."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from amp_migrate.report.diff import repository_path
from amp_migrate.report.model import Report
from amp_migrate.report.parts import diff_for_people
from amp_migrate.report.text import summary
from amp_migrate.report.wording import severity
from amp_migrate.result import Result

# GitHub takes comments of 65,536 characters.
MOST_CHARACTERS = 60_000
_SIGNS = {"note": "ℹ️", "warning": "⚠️", "error": "❌"}  # noqa: RUF001


def render(report: Report) -> str:
    """What changes, each diff folded; what was found; how to apply it. Diffs that would make it too long stay out."""
    head = "\n".join(["### amp-migrate", "", *_summary(report), ""])
    tail = "\n".join([*_findings(report), *_how_to_apply(report)])
    if len(head) + len(tail) > MOST_CHARACTERS:
        tail = tail[: MOST_CHARACTERS - len(head) - 100] + "\n\n(The rest is left out: it would be too long here.)\n"
    room = MOST_CHARACTERS - len(head) - len(tail)
    shown: list[str] = []
    left_out = 0
    for _, result in report.changes():
        block = _folded(result)
        if len(block) <= room:
            shown.append(block)
            room -= len(block)
        else:
            left_out += 1
    if left_out:
        shown.append(f"The diffs of {left_out} more file{'s' if left_out > 1 else ''} are too long to be shown here.\n")
    return "\n".join([head, *shown, tail])


def _summary(report: Report) -> Iterator[str]:
    first, *forms = summary(report)
    yield first
    if forms:
        yield ""
        yield from (f"- {line.strip()}" for line in forms)


def _folded(result: Result) -> str:
    diff = diff_for_people(result)
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", diff)), 3)
    name = _escaped(repository_path(result.path))
    added = sum(line.startswith("+") and not line.startswith("+++") for line in diff.splitlines())
    removed = sum(line.startswith("-") and not line.startswith("---") for line in diff.splitlines())
    title = f"<summary><code>{name}</code> (+{added} −{removed})</summary>"  # noqa: RUF001
    return f"<details>\n{title}\n\n{fence}diff\n{diff}{fence}\n\n</details>\n"


def _findings(report: Report) -> Iterator[str]:
    if report.findings:
        yield "#### Findings\n"
    for finding in report.findings:
        place = f"{_escaped(repository_path(finding.path))}:{finding.line}"
        yield f"- {_SIGNS[severity(finding)]} <code>{place}</code> **{finding.code}** {_escaped(finding.message)}<br>"
        yield f"  why: {_escaped(finding.why)}<br>"
        yield f"  do: {_escaped(finding.what_to_do)}"
    if report.findings:
        yield ""


def _how_to_apply(report: Report) -> Iterator[str]:
    paths = sorted({repository_path(result.path) for _, result in report.changes()})
    if paths and not report.written:
        # This line is copied into shells, and names come from whoever opens a pull request.
        plain = all(path.isprintable() and not path.startswith("-") for path in paths)
        named = " ".join(shlex.quote(path) for path in paths) if plain and len(paths) <= 5 else "."
        yield "To apply: `pip install amp-migrate`, then in the root of the repository\n"
        yield f"```sh\namp-migrate {named} --write\n```"


def _escaped(text: str) -> str:
    """Text that Markdown and HTML leave as it is."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", text)
