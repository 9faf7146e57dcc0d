"""`--report FILE`: one page for a repository, which loads nothing and has no script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from html import escape
from importlib.resources import files
from pathlib import PurePosixPath

from amp_migrate.findings import Finding
from amp_migrate.report.colours import coloured_lines
from amp_migrate.report.diff import repository_path
from amp_migrate.report.document import document
from amp_migrate.report.hunks import text_of
from amp_migrate.report.model import Report
from amp_migrate.report.text import summary
from amp_migrate.report.wording import severity
from amp_migrate.result import Result, Status
from amp_migrate.rules import RULES
from amp_migrate.selection import TITLES

_CONTEXT = 3  # lines around a change
_STATUS: dict[Status, str] = {
    "migrated": "migrated",
    "left": "left alone",
    "error": "not processed",
    "untouched": "nothing to do",
}


def render(report: Report) -> str:
    """The totals, the tree of files, and for each file with something to say its findings and its diff."""
    told = [result for result in report.results if result.status != "untouched" or result.findings]
    names = {result.path: f"f{number}" for number, result in enumerate(told)}
    parts = [_header(report), _forms(report), _tree(report, names)]
    parts += [_file(result, names[result.path]) for result in told]
    parts.append(_beside(report.beside))
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return document("amp-migrate", style, "\n".join(filter(None, parts)))


def _header(report: Report) -> str:
    first, *_ = summary(report)
    counts = report.files()
    tiles = "".join(
        f'<li class="{status}"><b>{counts[status]:,}</b> {_STATUS[status]}</li>' for status in _STATUS if counts[status]
    )
    ignored = f"<p>{report.ignored} findings are ignored, as asked.</p>" if report.ignored else ""
    return f"<header>\n<h1>amp-migrate</h1>\n<p>{escape(first)}</p>\n<ul>{tiles}</ul>\n{ignored}</header>"


def _forms(report: Report) -> str:
    """Every use that was found is in one of the columns."""
    rows = []
    for form, tally in report.forms():
        cells = "".join(f"<td>{tally.units[status]}</td><td>{tally.uses[status]}</td>" for status in tally.units)
        total = sum(tally.uses.values())
        rows.append(f"<tr><th>{form} {escape(TITLES[form])}</th>{cells}<td>{total}</td></tr>")
    if not rows:
        return ""
    head = "".join(f'<th colspan="2">{_STATUS[status]}</th>' for status in ("migrated", "left", "error"))
    units = "<th>units</th><th>uses</th>" * 3
    return (
        f'<table class="forms"><thead><tr><th></th>{head}<th>found</th></tr><tr><th></th>{units}<th>uses</th></tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table>"
    )


# -- the tree -----------------------------------------------------------------------------------------------


def _tree(report: Report, names: dict[str, str]) -> str:
    """Folders with what is in them; files with nothing to do are counted only."""
    root: dict[str, object] = {}
    for result in report.results:
        folder = root
        *above, name = PurePosixPath(repository_path(result.path)).parts
        for part in above:
            inner = folder.setdefault(f"{part}/", {})
            assert isinstance(inner, dict)
            folder = inner
        folder[name] = result
    return f"<nav><h2>Files</h2>{_folder(root, names)}</nav>"


def _folder(folder: dict[str, object], names: dict[str, str]) -> str:
    rows, quiet = [], 0
    for name, content in sorted(folder.items(), key=lambda item: (not item[0].endswith("/"), item[0])):
        if isinstance(content, dict):
            told = sum(one.path in names for one in _results_in(content))
            inner = _folder(content, names)
            head = f"<summary>{escape(name)} <small>{told or ''}</small></summary>"
            rows.append(f"<li><details{' open' if told else ''}>{head}{inner}</details></li>")
        elif isinstance(content, Result) and content.path in names:
            link = f'<a href="#{names[content.path]}">{escape(name)}</a>'
            rows.append(f'<li class="{content.status}">{link} <small>{_STATUS[content.status]}</small></li>')
        else:
            quiet += 1
    if quiet:
        rows.append(f"<li><small>{quiet} with nothing to do</small></li>")
    return f"<ul>{''.join(rows)}</ul>"


def _results_in(folder: dict[str, object]) -> Iterator[Result]:
    for content in folder.values():
        if isinstance(content, dict):
            yield from _results_in(content)
        elif isinstance(content, Result):
            yield content


# -- a file -------------------------------------------------------------------------------------------------


def _file(result: Result, name: str) -> str:
    what = f" {TITLES[result.form]}" if result.form else ""
    title = f"<code>{escape(repository_path(result.path))}</code>"
    head = f"{title} <small>{_STATUS[result.status]}{escape(what)}</small>"
    parts = [_unit(result), _findings(result.findings), _diff(result) if result.changed else ""]
    body = "\n".join(filter(None, parts))
    return f'<details class="file {result.status}" id="{name}" open><summary>{head}</summary>\n{body}</details>'


def _unit(result: Result) -> str:
    if len(result.unit) < 2:
        return ""
    others = "".join(
        f"<li><code>{escape(repository_path(path))}</code>{escape(f': {reason}' if reason else '')}</li>"
        for path, reason in result.unit
    )
    return f"<details><summary>a unit of {len(result.unit)} files</summary><ul>{others}</ul></details>"


def _findings(findings: Iterable[Finding]) -> str:
    rows = []
    for finding in findings:
        rule = RULES[finding.code]
        place = f"cell {finding.cell[0]}, line {finding.cell[1]}" if finding.cell else f"line {finding.line}"
        rows.append(
            f'<li class="{severity(finding)}"><details><summary><b>{finding.code}</b> {place}: '
            f"{escape(finding.message)}</summary><p>{escape(rule.why)}</p><p>To do: {escape(rule.what_to_do)}</p>"
            "</details></li>"
        )
    return f'<ul class="findings">{"".join(rows)}</ul>' if rows else ""


def _diff(result: Result) -> str:
    """Both sides beside each other, with some lines around each change."""
    before, after = text_of(result.source), text_of(result.output)
    left, right = coloured_lines(before), coloured_lines(after)
    rows: list[str] = []
    matcher = SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(_CONTEXT)):
        if number:
            rows.append('<tr class="gap"><td colspan="4">⋯</td></tr>')
        for tag, first, last, start, end in group:
            for offset in range(max(last - first, end - start)):
                rows.append(
                    f'<tr class="{tag}">{_side(left, first + offset, last)}{_side(right, start + offset, end)}</tr>'
                )
    return f'<table class="diff"><tbody>{"".join(rows)}</tbody></table>'


def _side(lines: list[str], index: int, end: int) -> str:
    if index >= end:
        return '<td></td><td class="none"></td>'
    return f"<td>{index + 1}</td><td><pre>{lines[index]}</pre></td>"


def _beside(findings: tuple[Finding, ...]) -> str:
    if not findings:
        return ""
    rows = "".join(
        f'<li class="{severity(one)}"><code>{escape(repository_path(one.path))}:{one.line}</code> <b>{one.code}</b> '
        f"{escape(one.message)}<br><small>{escape(RULES[one.code].what_to_do)}</small></li>"
        for one in findings
    )
    return f'<section><h2>Beside the code</h2><ul class="findings">{rows}</ul></section>'
