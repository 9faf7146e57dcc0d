"""What `judge` prints for people."""

from __future__ import annotations

import os
from collections.abc import Iterator

from amp_migrate.judge.judgement import Judgement, Line, Objection
from amp_migrate.proved import in_words
from amp_migrate.report.text import place


def lines(judgement: Judgement, verbose: int = 0) -> Iterator[str]:
    """Each finding with the lines of both sides; with `verbose` what is assumed, and where; then the verdict."""
    for one in judgement.objections:
        finding = one.as_finding
        yield f"{place(finding)}: {one.code} {one.title}"
        yield from _excerpt(one)
        yield f"    why: {finding.why}"
        yield f"    do:  {finding.what_to_do}"
    for assumption in judgement.assumed if verbose else ():
        yield f"{_shown(assumption.path)}:{assumption.line}: assumed: {assumption.what}"
    yield summary(judgement)


def summary(judgement: Judgement) -> str:
    """The verdict in one line."""
    if judgement.because:
        return f"{judgement.verdict}: {judgement.because}"
    wrong = [one for one in judgement.objections if one.is_wrong]
    open_ = [one for one in judgement.objections if one.code == "AMP430"]
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


def _excerpt(one: Objection) -> Iterator[str]:
    """The line before and the line after, as a diff would show them."""
    if one.before is None and one.after is None:
        return
    width = max(len(_number_of(side)) for side in (one.before, one.after))
    for mark, side in (("-", one.before), ("+", one.after)):
        if side is not None:
            yield f"    {mark} {_number_of(side):>{width}} | {side.text}"


def _number_of(line: Line | None) -> str:
    if line is None:
        return ""
    return f"{line.cell[0]}:{line.cell[1]}" if line.cell is not None else str(line.line)


def _shown(path: str) -> str:
    return min(path, os.path.relpath(path), key=len)


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
