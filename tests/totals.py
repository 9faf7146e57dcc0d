"""What must be true of the totals of every report: each file and each use is counted once, and what stays has a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from amp_migrate import Result
from amp_migrate.companions.stage import count_uses
from amp_migrate.report.model import Report
from amp_migrate.rules.catalogue import RULES
from amp_migrate.rules.source_forms import COMPANIONS, TITLES


def assert_adds_up(results: Sequence[Result]) -> None:
    """Files, uses and reasons of the results of one call."""
    report = Report(tuple(results))
    assert sum(report.files().values()) == len(results)
    forms = dict(report.forms())
    uses = {form: sum(one.sites for one in results if one.form == form) for form in TITLES}
    uses[COMPANIONS] += sum(one.companions[0] for one in results)
    assert {form: sum(tally.uses.values()) for form, tally in forms.items()} == {form: uses[form] for form in forms}
    assert all(form in forms for form, count in uses.items() if count)
    for form, tally in forms.items():
        if form != COMPANIONS:
            assert +Counter(tally.files) == Counter(one.status for one in results if one.form == form)
    for result in results:
        _assert_reasons(result, report)


def _assert_reasons(result: Result, report: Report) -> None:
    if result.sites:
        assert result.form in TITLES
        assert result.status in ("migrated", "left", "error")
    if result.status in ("left", "error"):
        assert result.findings or result.ignored, f"{result.path} stays without a reason"
    if result.status == "left" and result.form != COMPANIONS and not result.ignored:
        (unit,) = (one for one in report.units() if result in one)
        kinds = {RULES[finding.code].kind for one in unit for finding in one.findings}
        assert kinds & {"refusal", "error"} or any(finding.code == result.form for finding in result.findings)
    if not result.path.endswith(".ipynb"):
        assert result.companions_left == (count_uses(result.output) if result.companions[0] else 0)
    if result.companions_left:
        assert result.findings or result.ignored, f"{result.path} keeps a part of apex without a reason"
