"""One file on a repository's page: its unit, its findings, its change, and what `verify` found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from amp_migrate.findings import Finding
from amp_migrate.proved import line
from amp_migrate.report.diff import repository_path
from amp_migrate.report.document import prose
from amp_migrate.report.file_tree import Leaf
from amp_migrate.report.parts import Part, parts
from amp_migrate.report.side_by_side import SideBySide, excerpt, line_id
from amp_migrate.report.wording import severity
from amp_migrate.result import Result
from amp_migrate.rules.source_forms import TITLES

_AS_ASKED = "<p>Left as it is, as asked: by an option, a setting, a comment, or an answer.</p>"


class Run(NamedTuple):
    """What `verify` found about a script: in a word or two, and as HTML."""

    verdict: str
    content: str


class Section:
    """`anchors` are the places of all files with a section; `runs` are those of the file."""

    def __init__(self, result: Result, leaf: Leaf, anchors: Mapping[str, str], runs: Sequence[Run]) -> None:
        self._result = result
        self._leaf = leaf
        self._anchors = anchors
        self._runs = runs
        self._parts = parts(result)
        self._tables = {part.cell: self._table(part) for part in self._parts if part.changed}

    def render(self, *, is_open: bool) -> str:
        """The target of links stands in what unfolds: browsers open it for whoever follows one."""
        found = "".join(self._finding(finding) for finding in self._result.findings)
        inside = [
            self._unit(),
            f'<ul class="findings">{found}</ul>' if found else "",
            "" if found or self._result.status != "left" else _AS_ASKED,
            self._proof(),
            self._changes(),
            *(run.content for run in self._runs),
        ]
        body = "\n".join(filter(None, inside))
        opened = " open" if is_open else ""
        return (
            f'<details class="file {self._leaf.classes}"{opened}><summary>{self._head()}</summary>\n'
            f'<div id="{self._leaf.anchor}">\n{body}</div></details>'
        )

    def _head(self) -> str:
        form = f", {TITLES[self._result.form]}" if self._result.form else ""
        counts = ""
        if self._result.changed:
            added, removed = (sum(table.counts[side] for table in self._tables.values()) for side in (1, 0))
            counts = f' <small class="counts"><ins>+{added}</ins> <del>−{removed}</del></small>'  # noqa: RUF001
        verdicts = ", ".join(dict.fromkeys(run.verdict for run in self._runs))
        ran = f" <small>verify: {escape(verdicts)}</small>" if verdicts else ""
        return (
            f"<h3>{escape(repository_path(self._result.path))}</h3> "
            f'<small><span class="status">{self._leaf.status}</span>{escape(form)}</small>{counts}{ran}'
        )

    def _unit(self) -> str:
        if len(self._result.unit) < 2:
            return ""
        others = "".join(
            f"<li>{self._named(path)}{escape(f': {reason}' if reason else '')}</li>"
            for path, reason in self._result.unit
        )
        return f"<details><summary>a unit of {len(self._result.unit)} files</summary><ul>{others}</ul></details>"

    def _proof(self) -> str:
        """What was proved of the unit, with what was assumed of it below."""
        proof = self._result.proof
        if proof is None:
            return ""
        if not proof.assumptions:
            return f"<p>{escape(line(proof))}</p>"
        items = "".join(
            f"<li><code>{escape(one.path)}:{one.line}</code> {escape(one.what)}</li>" for one in proof.assumptions
        )
        return f"<details><summary>{escape(line(proof))}</summary><ul>{items}</ul></details>"

    def _named(self, path: str) -> str:
        name = escape(repository_path(path))
        if path in self._anchors and path != self._result.path:
            return f'<a href="#{self._anchors[path]}">{name}</a>'
        return f"<code>{name}</code>"

    # -- findings ---------------------------------------------------------------------------------------

    def _finding(self, finding: Finding) -> str:
        """The line, as a link where the change shows it, else with the source around it."""
        degree = severity(finding)
        opened = " open" if degree != "note" else ""
        cell, line = finding.cell or (None, finding.line)
        where = f"cell {cell}, line {line}" if cell is not None else f"line {line}"
        place, around = f"<span>{where}</span>", ""
        if cell in self._tables and self._tables[cell].shows(line):
            place = f'<a href="#{line_id(self._within(cell), line)}">{where}</a>'
        else:
            source = next((part.before for part in self._parts if part.cell == cell), "")
            around = excerpt(source, line) if source else ""
        return (
            f'<li class="{degree}">{place}<details{opened}><summary><b>{finding.code}</b> '
            f"{prose(finding.message)}</summary><p>{prose(finding.why)}</p><p>To do: {prose(finding.what_to_do)}</p>"
            f"</details>{around}</li>"
        )

    def _within(self, cell: int | None) -> str:
        return self._leaf.anchor if cell is None else f"{self._leaf.anchor}:cell-{cell}"

    # -- changes ----------------------------------------------------------------------------------------

    def _table(self, part: Part) -> SideBySide:
        places = (finding.cell or (None, finding.line) for finding in self._result.findings)
        return SideBySide(part, self._within(part.cell), {line for cell, line in places if cell == part.cell})

    def _changes(self) -> str:
        return "\n".join(
            (f"<h4>cell {cell}</h4>\n" if cell is not None else "") + table.table()
            for cell, table in self._tables.items()
        )
