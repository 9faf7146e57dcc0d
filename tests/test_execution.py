"""Every fixture is run, before and after, by `verify`: on the CPU, in float16, with our stand-in for Apex."""

from __future__ import annotations

import pytest

from amp_migrate.verify.comparison import Comparison
from amp_migrate.verify.pool import Pool
from amp_migrate.verify.programs import Program
from amp_migrate.verify.runner import Settings
from amp_migrate.verify.session import verify
from tests.fixture import FIXTURES, Fixture

every_fixture = pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)


def run_both(before: bytes, after: bytes, arguments: tuple[str, ...], pool: Pool, folder, **settings) -> Comparison:
    """Two contents of one script, in a folder of their own."""
    work, outputs = folder / "work", folder / "outputs"
    work.mkdir()
    outputs.mkdir()
    script = work / "train.py"
    script.write_bytes(before)
    programs = [
        Program(title, script, arguments, work, {script: content})
        for title, content in (("original", before), ("migrated", after))
    ]
    return verify(*programs, Settings(**{"time_limit": 120.0, **settings}), pool, outputs, lambda run, steps: None)


@every_fixture
def test_trains_the_same(fixture: Fixture, pool: Pool, tmp_path):
    """What stays as it is, is compared with itself: it runs, and nothing in it confuses the recorder."""
    comparison = run_both(fixture.before, fixture.expected, fixture.arguments, pool, tmp_path)
    assert (comparison.verdict, fixture.reason in comparison.reason) == (fixture.verdict, True), comparison.reason
    if fixture.is_about_amp and fixture.migrates and fixture.verdict == "same":
        assert _was_mixed(comparison), "a fixture that trains in float32 shows nothing"


def _was_mixed(comparison: Comparison) -> bool:
    """Some fixtures are about scripts that have mixed precision off; the report must say so."""
    original = comparison.runs["original"]
    return bool(original.training.low or original.low_share or original.levels == ["O0"]) or any(
        "off on both sides" in line.text for line in comparison.lines()
    )
