"""What `judge` prints for people."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.judge.judgement import Judgement, Line, Objection
from amp_migrate.proved import in_words
from amp_migrate.report.findings import by_importance, head, printable, sections, shown
from amp_migrate.report.terminal import GREEN, RED, UNWRAPPED, Look


def lines(judgement: Judgement, verbose: int = 0, look: Look = UNWRAPPED) -> Iterator[str]:
    """Each finding with the lines of both sides; with `verbose` what is assumed, and where; then the verdict."""
    objections = by_importance(judgement.objections, lambda one: one.as_finding)
    yield from sections(((one.as_finding, _objection(one, look)) for one in objections), look)
    yield from [""] if objections else []
    for assumption in judgement.assumed if verbose else ():
        yield from look.hanging("", f"{shown(assumption.path)}:{assumption.line}: assumed: {assumption.what}")
    yield from look.hanging("", summary(judgement), indent="    ")


def _objection(one: Objection, look: Look) -> Iterator[str]:
    yield from head(one.as_finding, one.title, look)
    yield from _excerpt(one, look)


def summary(judgement: Judgement) -> str:
    """The verdict in one line."""
    if judgement.because:
        return f"{judgement.verdict}: {judgement.because}"
    wrong = [one for one in judgement.objections if one.is_wrong]
    open_ = [one for one in judgement.objections if one.rule.is_undecided]
    notes = len(judgement.objections) - len(wrong) - len(open_)
    parts = []
    if wrong:
        parts.append(f"{_number(len(wrong), 'place')} in {_number(len({one.path for one in wrong}), 'file')}")
    if open_:
        parts.append(f"{_number(len(open_), 'place')} not compared")
    parts.append(in_words(judgement.proved, judgement.assumed))
    parts += [f"{_number(notes, 'note')}"] if notes else []
    parts += [f"{_number(judgement.ignored, 'finding')} ignored, as asked"] if judgement.ignored else []
    return f"{judgement.verdict}: {'; '.join(parts)}"


def _excerpt(one: Objection, look: Look) -> Iterator[str]:
    """The line before and the line after, as a diff would show them."""
    if one.before is None and one.after is None:
        return
    width = max(len(_number_of(side)) for side in (one.before, one.after))
    for mark, colour, side in (("-", RED, one.before), ("+", GREEN, one.after)):
        if side is not None:
            yield "    " + look.paint(f"{mark} {_number_of(side):>{width}} | {printable(side.text)}", colour)


def _number_of(line: Line | None) -> str:
    if line is None:
        return ""
    return f"{line.cell[0]}:{line.cell[1]}" if line.cell is not None else str(line.line)


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
