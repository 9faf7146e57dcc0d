"""`--report FILE`: one page for a repository, which loads nothing and has no script."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from amp_migrate.findings import Finding
from amp_migrate.report.diff import repository_of, repository_path
from amp_migrate.report.document import CURVES_STYLE, document, prose
from amp_migrate.report.file_section import Run, Section
from amp_migrate.report.file_tree import Leaf, file_tree
from amp_migrate.report.model import Report
from amp_migrate.report.origin import Origin
from amp_migrate.report.text import summary
from amp_migrate.report.wording import severity
from amp_migrate.result import Result, Status
from amp_migrate.rules.catalogue import RULES
from amp_migrate.rules.source_forms import TITLES

STATUS: dict[Status, str] = {
    "migrated": "migrated",
    "left": "left alone",
    "error": "not processed",
    "untouched": "nothing to migrate",
}
_FOLDED = 50  # files from which on a page begins with their names alone
_SEVERITIES = ("error", "warning", "note")
_VERIFY = (
    "<p>No run of <code>amp-migrate verify</code> is shown here. "
    "<code>amp-migrate verify SCRIPT --json FILE.json</code> keeps one; the next page that is written beside that file "
    "has its curves.</p>"
)


def render(report: Report, origin: Origin, runs: Mapping[str, Sequence[Run]] | None = None) -> str:
    """The totals, the findings by code, the tree of files, and a section for each file with something to say.

    `runs` has what `verify` found, by the path of the script.
    """
    runs = runs or {}
    told = [one for one in report.results if one.status != "untouched" or one.findings or one.path in runs]
    anchors = {result.path: _anchor(result.path) for result in told}
    leaves = {result.path: Leaf(anchors[result.path], _classes(result), STATUS[result.status]) for result in told}
    sections = [
        Section(result, leaves[result.path], anchors, runs.get(result.path, ())).render(is_open=len(told) <= _FOLDED)
        for result in told
    ]
    repositories = {repository_of(Path(os.path.realpath(result.path))).name for result in report.results}
    title = f"amp-migrate: {', '.join(sorted(repositories))}" if repositories else "amp-migrate"
    first, *_ = summary(report)
    parts = [
        '<a class="skip" href="#files">To the files</a>',
        f"<header>\n<h1>{escape(title)}</h1>\n{origin.render()}\n<p>{escape(first)}</p>\n</header>\n<main>",
        _totals(report, told),
        _forms(report),
        _runs(runs, anchors),
        _codes(report, anchors),
        '<div class="columns">',
        f'<nav aria-label="Files"><h2>Files</h2>{file_tree(report.results, leaves)}</nav>',
        '<div id="files">',
        *sections,
        _beside(report.beside),
        "</div>\n</div>\n</main>",
        "" if runs else f"<footer>{_VERIFY}</footer>",
    ]
    style = CURVES_STYLE + files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return document(title, style, "\n".join(filter(None, parts)))


def _anchor(path: str) -> str:
    """What a link to a file says: the same in the next report."""
    return quote(repository_path(path), errors="surrogateescape")


def _classes(result: Result) -> str:
    """What the filters of the page ask for."""
    look = any(severity(finding) != "note" for finding in result.findings)
    return f"{result.status} look" if look else result.status


# -- totals -------------------------------------------------------------------------------------------------


def _totals(report: Report, told: list[Result]) -> str:
    """How many files came to what, each counted once; each number shows its files and no others."""
    counts = report.files()
    looks = sum("look" in _classes(result).split() for result in told)
    tiles = [_tile("all", len(report.results), "file" if len(report.results) == 1 else "files", checked=True)]
    tiles += [_tile(status, counts[status], STATUS[status]) for status in STATUS if counts[status]]
    tiles += [_tile("look", looks, "to look at")] if looks else []
    ignored = f"<p>{report.ignored} findings are ignored, as asked.</p>" if report.ignored else ""
    legend = "<legend>Show the files that are</legend>"
    return f"<fieldset>{legend}{''.join(tiles)}</fieldset>\n{ignored}"


def _tile(name: str, count: int, words: str, *, checked: bool = False) -> str:
    radio = f'<input type="radio" name="show" id="show-{name}"{" checked" if checked else ""}>'
    return f'<label class="tile {name}">{radio}<b>{count:,}</b> {words}</label>'


def _forms(report: Report) -> str:
    """Every use that was found is in one of the columns."""
    sums: Counter[str] = Counter()
    rows = []
    for form, tally in report.forms():
        sums.update(tally.uses)
        cells = "".join(
            f"<td>{_number(tally.units[one])}</td><td>{_number(tally.uses[one])}</td>" for one in tally.uses
        )
        title = f'<th scope="row"><small>{form}</small> {escape(TITLES[form])}</th>'
        rows.append(f"<tr>{title}{cells}<td>{sum(tally.uses.values()):,}</td></tr>")
    if not rows:
        return ""
    statuses: tuple[Status, ...] = ("migrated", "left", "error")
    head = "".join(f'<th scope="colgroup" colspan="2" class="{one}">{STATUS[one]}</th>' for one in statuses)
    columns = '<th scope="col">units</th><th scope="col">uses</th>' * len(statuses) + '<th scope="col">uses</th>'
    foot = "".join(f"<td></td><td>{_number(sums[one])}</td>" for one in statuses)
    return (
        "<section><h2>What was found</h2>"
        "<p>Every use that was found is migrated, or left alone for a reason that is said at its file, or could not be "
        "processed and needs a hand.</p>"
        '<div class="wide" tabindex="0" role="region" aria-label="What was found">'
        f'<table class="forms"><thead><tr><td></td>{head}<th scope="col">found</th></tr>'
        f"<tr><td></td>{columns}</tr></thead><tbody>{''.join(rows)}</tbody>"
        f'<tfoot><tr><th scope="row">all</th>{foot}<td>{sums.total():,}</td></tr></tfoot></table></div></section>'
    )


def _number(count: int) -> str:
    return f"{count:,}" if count else '<span class="zero">0</span>'


def _runs(runs: Mapping[str, Sequence[Run]], anchors: Mapping[str, str]) -> str:
    """Where the curves are."""
    rows = "".join(
        f'<li><a href="#{anchors[path]}">{escape(repository_path(path))}</a>: '
        f"{escape(', '.join(run.verdict for run in found))}</li>"
        for path, found in sorted(runs.items())
    )
    said = "<p>What <code>amp-migrate verify</code> found; the curves are at the files.</p>"
    return f"<section><h2>Trained and compared</h2>{said}<ul>{rows}</ul></section>" if rows else ""


# -- findings -----------------------------------------------------------------------------------------------


def _codes(report: Report, anchors: Mapping[str, str]) -> str:
    """Each code once, with its explanation and all of its places."""
    by_code: dict[tuple[str, str], list[Finding]] = {}
    for finding in report.findings:
        by_code.setdefault((finding.code, finding.case), []).append(finding)
    if not by_code:
        return ""
    order = sorted(by_code, key=lambda one: (_SEVERITIES.index(severity(by_code[one][0])), one))
    rows = []
    for code, case in order:
        found, rule = by_code[code, case], RULES[code].of(case)
        places = "".join(f"<li>{_place(one, anchors)}</li>" for one in found)
        head = f"<b>{code}</b> {prose(rule.title)} <small>{len(found):,}</small>"
        rows.append(
            f'<li class="{severity(found[0])}"><details><summary>{head}</summary>'
            f"<p>{prose(rule.why)}</p><p>To do: {prose(rule.what_to_do)}</p>"
            f'<ul class="places">{places}</ul></details></li>'
        )
    return f'<section><h2>Findings by code</h2><ul class="findings codes">{"".join(rows)}</ul></section>'


def _place(finding: Finding, anchors: Mapping[str, str]) -> str:
    where = f"cell {finding.cell[0]}:{finding.cell[1]}" if finding.cell else finding.line
    text = f"{escape(repository_path(finding.path))}:{where}"
    return f'<a href="#{anchors[finding.path]}">{text}</a>' if finding.path in anchors else f"<code>{text}</code>"


def _beside(findings: tuple[Finding, ...]) -> str:
    if not findings:
        return ""
    rows = "".join(
        f'<li class="{severity(one)}"><code>{escape(repository_path(one.path))}:{one.line}</code> <b>{one.code}</b> '
        f"{prose(one.message)}<br><small>{prose(one.what_to_do)}</small></li>"
        for one in findings
    )
    return f'<section><h2>Beside the code</h2><ul class="findings">{rows}</ul></section>'
