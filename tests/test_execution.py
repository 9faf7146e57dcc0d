"""Every fixture is run, before and after, by `verify`: on the CPU, in float16, with our stand-in for Apex."""

from __future__ import annotations

import pytest

from amp_migrate.verify.comparison import Comparison
from amp_migrate.verify.pool import Pool
from amp_migrate.verify.programs import Program
from amp_migrate.verify.runner import Settings
from amp_migrate.verify.session import verify
from tests.fixture import FIXTURES, PAIRS, Fixture

every_fixture = pytest.mark.parametrize("fixture", [*FIXTURES, *PAIRS], ids=lambda fixture: fixture.name)
every_guard = pytest.mark.parametrize(
    "fixture", [one for one in (*FIXTURES, *PAIRS) if one.guard], ids=lambda fixture: fixture.name
)


def run_both(
    before: bytes,
    after: bytes,
    arguments: tuple[str, ...],
    pool: Pool,
    folder,
    more_for_after: tuple[str, ...] = (),
    **settings,
) -> Comparison:
    """Two contents of one script, in a folder of their own."""
    work, outputs = folder / "work", folder / "outputs"
    work.mkdir()
    outputs.mkdir()
    script = work / "train.py"
    script.write_bytes(before)
    programs = [
        Program("original", script, arguments, work, {script: before}),
        Program("migrated", script, (*arguments, *more_for_after), work, {script: after}),
    ]
    return verify(*programs, Settings(**{"time_limit": 120.0, **settings}), pool, outputs, lambda run, steps: None)


@every_fixture
def test_trains_the_same(fixture: Fixture, pool: Pool, tmp_path):
    """What stays as it is, is compared with itself: it runs, and nothing in it confuses the recorder."""
    arguments = fixture.arguments + fixture.guard
    comparison = run_both(fixture.before, fixture.expected, arguments, pool, tmp_path)
    assert (comparison.verdict, fixture.reason in comparison.reason) == (fixture.verdict, True), comparison.reason
    if fixture.is_about_amp and fixture.migrates and fixture.verdict == "same":
        assert _was_mixed(comparison), "a fixture that trains in float32 shows nothing"


@every_guard
def test_plain_arm_is_the_specification(fixture: Fixture, pool: Pool, tmp_path):
    """The migrated script in mixed precision, against the original without it (rule G3)."""
    sides = fixture.before, fixture.expected, fixture.arguments, pool, tmp_path
    comparison = run_both(*sides, more_for_after=fixture.guard)
    assert comparison.verdict == "same", comparison.reason
    assert (_half_precision(comparison, "original"), _half_precision(comparison, "migrated")) == (False, True)


@every_guard
def test_without_its_guard_nothing_is_mixed(fixture: Fixture, pool: Pool, tmp_path):
    sides = fixture.before, fixture.expected, fixture.arguments, pool, tmp_path
    comparison = run_both(*sides)
    assert comparison.verdict == "same", comparison.reason
    assert (_half_precision(comparison, "original"), _half_precision(comparison, "migrated")) == (False, False)


def _half_precision(comparison: Comparison, run: str) -> bool:
    record = comparison.runs[run]
    return bool(record.training.low or record.low_share or record.scalers)


def _was_mixed(comparison: Comparison) -> bool:
    """Some fixtures are about scripts that have mixed precision off; the report must say so."""
    levels = comparison.runs["original"].levels
    return (
        _half_precision(comparison, "migrated")
        or levels == ["O0"]
        or any("off on both sides" in line.text for line in comparison.lines())
    )
