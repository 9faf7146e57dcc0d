"""What somebody has to know who migrates a refused unit by hand: a brief for each, in `--output-format json`."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from amp_migrate.findings import Finding, Span
from amp_migrate.guide import rules
from amp_migrate.home import page_of
from amp_migrate.report.hunks import text_of
from amp_migrate.report.model import Report
from amp_migrate.report.scripts import is_run
from amp_migrate.result import Result
from amp_migrate.rules.source_forms import COMPANIONS, FP16_UTILS, HALF, PLAIN, TITLES
from amp_migrate.seen import Seen

# What is known of a training, and what is seen of each.
_KNOWN = {
    "models": "model",
    "optimizers": "optimizer",
    "losses": "loss",
    "guards": "guard",
    "conditions": "condition",
    "levels": "level",
    "loss_scales": "loss scale",
    "devices": "device",
}
_ALWAYS_THERE = ("models", "optimizers", "losses", "devices")  # where one of these was not seen, it is not known
_CHANGED = frozenset(
    "import, setup, forward, backward, gradients, step, state, cast, skipped step, handed on, part of Apex".split(", ")
)
_STEPS = ("Scaler", "Switch", "Autocast", "Backward", "Step", "Update")
_HALF = re.compile(r"\.half\(|float16|O[23]\b")
_STATE = re.compile(r"\bstate_dict\b|torch\.save|torch\.load")
_GRADIENTS = re.compile(r"clip_grad|\.grad\b|master_params")
_COPY = "ORIGINAL"


def briefs(report: Report) -> list[dict[str, Any]]:
    """One for each unit that was left alone for a reason."""
    found = ((unit, _reasons(unit)) for unit in report.units())
    return [_brief(unit, reasons) for unit, reasons in found if reasons]


def _reasons(unit: Sequence[Result]) -> list[Finding]:
    """Why a unit is left alone; files that only belong to it have nothing to say where another one does."""
    stays = [result for result in unit if result.form_status in ("left", "error")]
    found = [one for result in stays for one in result.findings if one.rule.kind in ("refusal", "error")]
    found += [one for result in stays for one in result.also] if found else []
    own = [one for one in found if not one.rule.is_secondary]
    return list(dict.fromkeys(own or found))


def _brief(unit: Sequence[Result], reasons: Sequence[Finding]) -> dict[str, Any]:
    sources = {reason.path: b"" for reason in reasons} | {result.path: result.source for result in unit}
    lines = {path: _Lines(path, source) for path, source in sources.items()}
    form = next((result.form for result in unit if result.form), "")
    seen = [one for result in unit for one in result.seen]
    known = {
        name: [{"text": one.text, **_position(one, lines)} for one in _outermost(seen, what)]
        for name, what in _KNOWN.items()
    }
    return {
        "files": [result.path for result in unit],
        "form": {"code": form, "title": TITLES.get(form, "")},
        "reasons": [{**_rule(one), **_place(one, lines)} for one in reasons],
        "places": [{"what": one.what, **_place(one, lines)} for one in _places(seen)],
        "known": known,
        "unknown": [name for name in _ALWAYS_THERE if not known[name]],
        "keep": list(_keep(unit, form, known)),
        "check": _check(unit),
    }


def _rule(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "title": finding.rule.title,
        "message": finding.message,
        "why": finding.why,
        "what_to_do": finding.what_to_do,
        "page": page_of(finding.code),
    }


def _places(seen: Sequence[Seen]) -> list[Seen]:
    """What an edit changes; a use of the form that is nothing else as well."""
    found = [one for what in _CHANGED for one in _outermost(seen, what)]
    at = {(one.path, one.line) for one in found}
    found += [one for one in _outermost(seen, "use") if (one.path, one.line) not in at]
    return sorted(found, key=lambda one: one.order)


def _outermost(seen: Sequence[Seen], what: str) -> list[Seen]:
    """All that is something, without what stands in another one: `clip_grad_norm_(amp.master_params(optimizer))`."""
    found = [one for one in seen if one.what == what]
    return [one for one in found if not any(_holds(other, one) for other in found)]


def _holds(outer: Seen, inner: Seen) -> bool:
    if outer is inner or outer.span is None or inner.span is None or outer.path != inner.path:
        return False
    one, other = outer.span, inner.span
    begins = (one.line, one.column) <= (other.line, other.column)
    return begins and (other.end_line, other.end_column) <= (one.end_line, one.end_column)


def _position(one: Finding | Seen, lines: dict[str, _Lines]) -> dict[str, Any]:
    """Where something stands, to the column behind its end; without columns of its own, its whole line."""
    span = one.span or _whole(one.line, lines[one.path].of(one)[0])
    return {
        "path": one.path,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "cell": dict(zip(("number", "line"), one.cell, strict=True)) if one.cell is not None else None,
    }


def _place(one: Finding | Seen, lines: dict[str, _Lines]) -> dict[str, Any]:
    """The same with the lines that hold it."""
    return {**_position(one, lines), "source": lines[one.path].of(one)}


class _Lines:
    """The lines of a file, or of the cells of a notebook."""

    def __init__(self, path: str, source: bytes) -> None:
        self._cells: dict[int, str] = {}
        self._text = ""
        if not path.endswith(".ipynb"):
            self._text = text_of(source)
            return
        from amp_migrate.files.notebook import Notebook, NotebookError

        try:
            self._cells = {cell.number: cell.source for cell in Notebook(source).cells}
        except NotebookError:
            self._text = text_of(source)

    def of(self, one: Finding | Seen) -> list[str]:
        """The lines that something stands on; one at least."""
        number, text = one.line, self._text
        if one.cell is not None:
            number, text = one.cell[1], self._cells.get(one.cell[0], "")
        count = one.span.end_line - one.span.line if one.span is not None and one.cell is None else 0
        return text.split("\n")[number - 1 : number + count] or [""]


def _whole(line: int, text: str) -> Span:
    """A line from its first character that is no space to its end."""
    return Span(line, len(text) - len(text.lstrip()) + 1, line, len(text.rstrip()) + 1)


def _keep(unit: Sequence[Result], form: str, known: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """The rules of the guide that concern what is in these files, in their order."""
    wanted = set() if form in ("", COMPANIONS) else set(_STEPS)
    text = "\n".join(text_of(result.source) for result in unit)
    guards = [one["text"] for one in known["guards"]]
    concerned = {
        "Unscale": bool(_GRADIENTS.search(text)),
        "State": bool(_STATE.search(text)),
        "Accumulation": any("%" in guard for guard in guards),
        "Several optimizers": len({one["text"] for one in known["optimizers"]}) > 1,
        "Half weights": form in (FP16_UTILS, HALF) or bool(_HALF.search(text)),
    }
    wanted |= {name for name, is_concerned in concerned.items() if is_concerned and wanted}
    wanted |= {"The rest"} if form == PLAIN else {"Apex", "The rest"}
    yield from (rule for name, rule in rules().items() if name in wanted)


def _check(unit: Sequence[Result]) -> dict[str, Any] | None:
    """The commands that judge an edit of these files; none for standard input."""
    paths = [result.path for result in unit]
    if "-" in paths:
        return None
    folder = _folder(paths)
    both = ["--before", _COPY, "--after", folder]
    scripts = [os.path.relpath(result.path, folder) for result in unit if _is_script(result)]
    return {
        "original": shlex.join(["cp", "-r", folder, _COPY]),
        "judge": shlex.join(["amp-migrate", "judge", *both, "--output-format", "json"]),
        "judge_in_git": shlex.join(["amp-migrate", "judge", "--since", "HEAD", *paths, "--output-format", "json"]),
        "verify": [shlex.join(["amp-migrate", "verify", one, *both, "--json", "verdict.json"]) for one in scripts],
    }


def _folder(paths: Iterable[str]) -> str:
    """What holds all of them, and the whole of the package that they are in."""
    folder = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return folder if os.path.isabs(next(iter(paths))) else os.path.relpath(folder)


def _is_script(result: Result) -> bool:
    return result.path.endswith(".ipynb") or is_run(result.source)
