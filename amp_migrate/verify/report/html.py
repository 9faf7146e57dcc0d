"""The report as one page that loads nothing: the style sheet and the figure stand in it, and it has no script."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files

from amp_migrate.report.document import CURVES_STYLE, document
from amp_migrate.report.origin import Origin
from amp_migrate.verify.comparison import Comparison, Line, Section, Verdict
from amp_migrate.verify.report.facts import failures, rows
from amp_migrate.verify.report.plot import svgs

_HEADLINES: dict[Verdict, str] = {
    "same": "They train the same",
    "different": "They train differently",
    "not comparable": "They cannot be compared",
}


def page(comparison: Comparison, origin: Origin) -> str:
    """A whole HTML document."""
    parts = [
        _header(comparison, origin),
        "<main>",
        _failures(comparison),
        _part("How they trained", _panels(comparison)),
        _compared(comparison),
        _verdicts(comparison),
        _notes(comparison),
        "</main>",
    ]
    title = f"{comparison.verdict}: {comparison.before.script} - amp-migrate verify"
    style = CURVES_STYLE + files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return document(title, style, "\n".join(filter(None, parts)))


def section(comparison: Comparison) -> str:
    """What a page about a whole repository says of a run; it needs CURVES_STYLE."""
    lines = _lines(comparison)
    parts = [
        f"<h4>verify: {_HEADLINES[comparison.verdict].lower()}</h4>\n<p>{escape(comparison.reason)}</p>",
        _command(comparison),
        _panels(comparison),
        f"<details><summary>verdict, line by line</summary>\n{lines}</details>" if lines else "",
    ]
    return _run(_class(comparison.verdict), parts)


def stale_section(comparison: Comparison) -> str:
    """The same for a run of other code than the page is about: nothing of what it showed."""
    said = "<p>The code has changed since: this file, or a module that it imports. The curves are not shown.</p>"
    return _run("stale", ["<h4>verify: ran another version</h4>", said, _command(comparison)])


def _run(name: str, parts: Iterable[str]) -> str:
    content = "\n".join(filter(None, parts))
    return f'<section class="verify {name}">\n{content}\n</section>'


def _command(comparison: Comparison) -> str:
    return f"<pre>{escape(comparison.command)}</pre>" if comparison.command else ""


def _header(comparison: Comparison, origin: Origin) -> str:
    return (
        f'<header class="{_class(comparison.verdict)}">\n'
        f"<h1>{_HEADLINES[comparison.verdict]}</h1>\n"
        f"<p>{escape(comparison.reason)}</p>\n"
        f"{origin.render()}\n"
        "</header>"
    )


def _failures(comparison: Comparison) -> str:
    ended = [f"<p>{escape(name)}</p>\n<pre>{escape(failure)}</pre>" for name, failure in failures(comparison)]
    return _part("What stopped a run", "\n".join(ended))


def _compared(comparison: Comparison) -> str:
    head = f"<td></td>{_head(comparison.before.title)}{_head(comparison.after.title)}"
    return _part("What was compared", _table("facts", head, [_body(_fact(*row) for row in rows(comparison))]))


def _fact(label: str, before: str, after: str) -> str:
    """What holds for both sides is said once."""
    values = f'<td colspan="2">{escape(before)}</td>' if before == after else _cell(before) + _cell(after)
    return f'<th scope="row">{escape(label)}</th>{values}'


def _panels(comparison: Comparison) -> str:
    """Each is a picture of its own, so that a phone can show them below each other."""
    try:
        content = "\n".join(svgs(comparison))
    except ModuleNotFoundError:  # no reason to lose the rest after a long run
        return "<p>The figure needs matplotlib: pip install amp-migrate[verify]</p>"
    return f'<div class="figure">\n{content}\n</div>' if content else ""


def _verdicts(comparison: Comparison) -> str:
    return _part("Verdict, line by line", _lines(comparison))


def _lines(comparison: Comparison) -> str:
    """The last column has no name where nothing stands in it."""
    meaning = "Meaning" if any(line.text for line in comparison.lines()) else ""
    head = "".join(_head(name) for name in ("Check", "Status", "Measured", "Threshold", meaning) if name)
    return _table("verdicts", head, map(_section, comparison.sections))


def _section(section: Section) -> str:
    title = f'<th colspan="5" scope="rowgroup">{escape(section.title)}</th>'
    return _body([title, *map(_line, section.lines)])


def _line(line: Line) -> str:
    return (
        f'<th scope="row">{escape(line.check)}</th>'
        + _cell(line.status, f"status {_class(line.status)}")
        + _cell(line.number, "number")
        + _cell(line.threshold, "number threshold")
        + _cell(line.text)
    )


def _notes(comparison: Comparison) -> str:
    items = "\n".join(f"<li>{escape(note)}</li>" for note in comparison.notes)
    return _part("Notes", f"<ul>\n{items}\n</ul>" if items else "")


def _part(title: str, content: str) -> str:
    """A heading and what stands under it; nothing where there is nothing."""
    return f"<h2>{title}</h2>\n{content}" if content else ""


def _table(name: str, head: str, bodies: Iterable[str]) -> str:
    content = "\n".join(bodies)
    return f'<table class="{name}">\n<thead><tr>{head}</tr></thead>\n{content}\n</table>' if content else ""


def _body(lines: Iterable[str]) -> str:
    content = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f"<tbody>\n{content}\n</tbody>"


def _head(text: str) -> str:
    return f'<th scope="col">{escape(text)}</th>'


def _cell(text: str, name: str = "") -> str:
    attribute = f' class="{escape(name)}"' if name else ""
    return f"<td{attribute}>{escape(text)}</td>"


def _class(words: str) -> str:
    return words.replace(" ", "-")
