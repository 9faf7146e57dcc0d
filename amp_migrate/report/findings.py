"""Findings as people read them: the place, the source line with a mark, why it matters, and what to do.

    train.py:14: AMP913 optimizer.step(closure) evaluates the loss more than once
        14 | optimizer.step(closure)
           | ^^^^^^^^^^^^^^^^^^^^^^^
        also: other.py:20
        with it stays: helper.py
        why: ...
        do:  ...

What has one cause is said once: one code with one message is one finding with many places, and a file that stays only
because another one does is named there. What matters most comes first.
"""

from __future__ import annotations

import dataclasses
import os
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeVar
from unicodedata import combining, east_asian_width

from amp_migrate.files.read import read_if_there
from amp_migrate.findings import Finding
from amp_migrate.report.terminal import BOLD, CYAN, RED, UNWRAPPED, YELLOW, Look
from amp_migrate.rules.rule import Kind, Rule

_COLOURS: dict[Kind, str] = {"error": RED, "breach": RED, "refusal": YELLOW, "attention": YELLOW}
_IMPORTANCE: tuple[Kind, ...] = ("error", "breach", "refusal", "attention", "note")
_MOST_PLACES = 5
_LONGEST_LINE = 200  # of code that somebody wrote
_INDENT = "    "
# Code in a message: in backticks, or a first word that is no word of English.
_NAMED = re.compile(r"`[^`]+`|^[\w.]*[A-Z_.(=][^\s:,;]*")
_Found = TypeVar("_Found")


@dataclasses.dataclass
class Cause:
    """A finding, where the same was found as well, and the files that stay because of it."""

    first: Finding
    others: list[Finding] = dataclasses.field(default_factory=list)
    following: list[Finding] = dataclasses.field(default_factory=list)


def finding_lines(
    findings: Iterable[Finding], sources: Mapping[str, bytes], look: Look = UNWRAPPED, *, verbose: bool = False
) -> Iterator[str]:
    """The findings by their causes, those of one code together; `sources` are the contents of files by their paths.

    With `verbose` all places are listed.
    """
    lines = _Lines(sources)
    causes = by_importance(causes_of(findings), lambda cause: cause.first)
    yield from sections(((one.first, _cause(one, lines, look, verbose=verbose)) for one in causes), look)


def sections(told: Iterable[tuple[Finding, Iterable[str]]], look: Look = UNWRAPPED) -> Iterator[str]:
    """What was found, as a finding and lines; why it matters and what to do follows once for all of one case."""
    for number, (_, group) in enumerate(groupby(told, key=lambda one: _case(one[0]))):
        yield from [""] if number else []
        found = list(group)
        for _, lines in found:
            yield from lines
        finding = found[0][0]
        for label, text in (("why:", finding.why), ("do: ", finding.what_to_do)):
            yield from look.hanging(f"{_INDENT}{label} ", text, f"{_INDENT}{look.paint(label, BOLD)} ")


def by_importance(found: Sequence[_Found], finding_of: Callable[[_Found], Finding]) -> list[_Found]:
    """The most important first; those of one code, and in these those of one case, one after the other."""
    first: dict[object, int] = {}
    for number, one in enumerate(found):
        for key in (finding_of(one).code, _case(finding_of(one))):
            first.setdefault(key, number)

    def rank(one: _Found) -> tuple[int, int, int]:
        finding = finding_of(one)
        return _rank(finding.rule), first[finding.code], first[_case(finding)]

    return sorted(found, key=rank)


def _case(finding: Finding) -> tuple[str, str]:
    """What has the same words for why it matters and for what to do."""
    return finding.code, finding.case


def _cause(cause: Cause, lines: _Lines, look: Look, *, verbose: bool) -> Iterator[str]:
    yield from head(cause.first, cause.first.message, look)
    yield from _excerpt(cause.first, lines, look)
    yield from _list("also:", _places(cause), look, verbose=verbose)
    stay = "with it stay:" if len(cause.following) > 1 else "with it stays:"
    yield from _list(stay, [(shown(one.path), "") for one in cause.following], look, verbose=verbose)


def head(finding: Finding, message: str, look: Look) -> Iterator[str]:
    """Place, code and what was found."""
    label = f"{place(finding)}: {finding.code} "
    colour = _colour(finding.rule)
    painted = f"{look.paint(place(finding), BOLD)}: {look.paint(finding.code, BOLD, colour)} "
    return look.hanging(label, message, painted, _INDENT)


def causes_of(findings: Iterable[Finding]) -> list[Cause]:
    """The causes of some findings, in the order of these."""
    found: dict[object, Cause] = {}
    following: list[Finding] = []
    known = list(findings)
    reasons = {(one.path, one.code) for one in known if one.because is None}
    for one in known:
        if one.because in reasons:
            following.append(one)
            continue
        # One cause, whatever its words are in each of the files that ask for it.
        key = (*_case(one), "" if one.rule.about == "project" else one.message)
        if key in found:
            found[key].others.append(one)
        else:
            found[key] = Cause(one)
    for one in following:
        _of_place(found.values(), one).following.append(one)
    return list(found.values())


def _of_place(causes: Iterable[Cause], follower: Finding) -> Cause:
    return next(
        cause
        for cause in causes
        if any((one.path, one.code) == follower.because for one in (cause.first, *cause.others))
    )


def _rank(rule: Rule) -> int:
    """What other files ask for can wait until the code is done."""
    return len(_IMPORTANCE) if rule.about == "project" else _IMPORTANCE.index(rule.kind)


def _colour(rule: Rule) -> str:
    return _COLOURS.get(rule.kind, CYAN)


# -- places ---------------------------------------------------------------------------------------------


def place(finding: Finding) -> str:
    """`path:line`, the path as it was given or relative to the current folder, whichever is shorter; in a notebook
    `path:cell 3:2`.
    """
    if finding.cell is not None:
        return f"{shown(finding.path)}:cell {finding.cell[0]}:{finding.cell[1]}"
    return f"{shown(finding.path)}:{finding.line}"


def shown(path: str) -> str:
    """A path for people."""
    return "<stdin>" if path == "-" else min(path, os.path.relpath(path), key=len)


def _places(cause: Cause) -> list[tuple[str, str]]:
    """Where else it was found, each with what is said of that place alone."""
    return [(place(one), _own_words(one.message, cause.first.message)) for one in cause.others]


def _own_words(message: str, first: str) -> str:
    """A message without the beginning and the end that it shares with the first one; empty where it is the same."""
    if message == first:
        return ""
    begin, colon, rest = message.partition(": ")
    if colon and first.startswith(begin + colon):
        message, first = rest, first[len(begin + colon) :]
    rest, semicolon, end = message.rpartition("; ")
    return rest if semicolon and first.endswith(semicolon + end) and rest else message


def _list(label: str, entries: Sequence[tuple[str, str]], look: Look, *, verbose: bool) -> Iterator[str]:
    """One place a line, behind a label; of many the first ones. A path is never taken apart."""
    is_whole = verbose or len(entries) <= _MOST_PLACES
    lead, painted = f"{_INDENT}{label} ", f"{_INDENT}{look.paint(label, BOLD)} "
    rest = " " * len(lead)
    for where, what in entries if is_whole else entries[: _MOST_PLACES - 1]:
        if what:
            yield from look.hanging(f"{lead}{where}: ", what, f"{painted}{where}: ", f"{rest}  ")
        else:
            yield f"{painted}{where}"
        lead = painted = rest
    if not is_whole:
        yield f"{rest}and {len(entries) - _MOST_PLACES + 1} more; -v lists them"


# -- source lines ---------------------------------------------------------------------------------------


class _Lines:
    """The lines that findings are about. Files that nobody has read yet (requirements, documents) are read here."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self._sources = sources
        self._read: dict[str, dict[int | None, list[str]]] = {}

    def __getitem__(self, finding: Finding) -> str:
        """Empty where there is no such line, and where nothing is said of a line."""
        if finding.line == 1 and finding.rule.about == "file":
            return ""
        if finding.path not in self._read:
            self._read[finding.path] = self._lines(finding.path)
        cell, line = finding.cell or (None, finding.line)
        lines = self._read[finding.path].get(cell, [])
        return lines[line - 1] if line <= len(lines) else ""

    def _lines(self, path: str) -> dict[int | None, list[str]]:
        from amp_migrate.report.parts import code_of

        source = self._sources.get(path)
        content = read_if_there(Path(path)) if source is None and path else source or b""
        return {cell: text.split("\n") for cell, text in code_of(path, content)}


def _excerpt(finding: Finding, lines: _Lines, look: Look) -> Iterator[str]:
    """The source line and a mark under its code. Code is never wrapped."""
    text = printable(lines[finding])
    if not text.strip():
        return
    number = str(finding.cell[1] if finding.cell is not None else finding.line)
    yield f"{_INDENT}{look.paint(number, CYAN)} {look.paint('|', CYAN)} {text}"
    begin = len(text) - len(text.lstrip())
    before, marked = _subject(finding.message, _code(text.strip()))
    begin += len(before)
    mark = "^" * _columns(marked)
    if look.width is not None:
        mark = mark[: max(1, look.width - len(f"{_INDENT}{number} | ") - begin)]
    painted = look.paint(mark, BOLD, _colour(finding.rule))
    yield f"{_INDENT}{' ' * len(number)} {look.paint('|', CYAN)} {_blank(text[:begin])}{painted}"


def printable(text: str) -> str:
    """A line as a terminal may show it: what would steer it is replaced, and what no screen holds is cut."""
    safe = "".join(one if one.isprintable() or one == "\t" else "\N{REPLACEMENT CHARACTER}" for one in text)
    return safe if len(safe) <= _LONGEST_LINE else f"{safe[:_LONGEST_LINE]} ..."


def _blank(text: str) -> str:
    """As wide as the text."""
    return "".join(one if one == "\t" else " " * _columns(one) for one in text)


def _subject(message: str, code: str) -> tuple[str, str]:
    """What comes before the mark, and what is marked: what the message names, if the line has that once, else all."""
    for one in _NAMED.findall(message):
        text = one.strip("`")
        found = list(re.finditer(rf"(?<![\w.]){re.escape(text)}(?!\w)", code))
        if len(found) == 1 and text.count("(") == text.count(")"):
            return code[: found[0].start()], text
    return "", code


def _code(line: str) -> str:
    """A line without its comment, if it is not all there is."""
    rest: Callable[[], str] = iter([line]).__next__
    try:
        for token in tokenize.generate_tokens(rest):
            if token.type == tokenize.COMMENT:
                return line[: token.start[1]].rstrip() or line
    except (tokenize.TokenError, SyntaxError):
        pass  # a part of a statement, or no Python
    return line


def _columns(text: str) -> int:
    """How wide a terminal shows it."""
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)
