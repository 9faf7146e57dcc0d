"""Every fixture: its expected output, byte for byte and in every file format, and what that output is worth."""

from __future__ import annotations

import codecs

import pytest

from amp_migrate.check import check_module
from amp_migrate.facts import Facts
from amp_migrate.files.parse import parse
from tests.fixture import FIXTURES, PAIRS, ROOT, Fixture
from tests.totals import assert_adds_up

every_fixture = pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)
every_migration = pytest.mark.parametrize(
    "fixture", [fixture for fixture in FIXTURES if fixture.migrates], ids=lambda fixture: fixture.name
)


def test_every_folder_is_a_fixture():
    folders = {path.parent for path in ROOT.glob("*/*/before.py")}
    assert folders == {fixture.folder for fixture in (*FIXTURES, *PAIRS)}
    assert len(folders) >= 42


@every_fixture
def test_expected_output(fixture: Fixture):
    result = fixture.migrate()
    assert [f"{found.line} {found.code} {found.message}" for found in result.findings] == fixture.findings
    assert result.output.decode() == fixture.expected.decode()
    assert result.status == fixture.status
    assert_adds_up([result])


@every_migration
def test_second_run_changes_nothing(fixture: Fixture):
    again = fixture.migrate(fixture.expected)
    assert again.output == fixture.expected
    assert {one.code for one in again.findings} == _still_there(fixture)


def _still_there(fixture: Fixture) -> set[str]:
    """The clip of scaled gradients that is kept (AMP104) is a mistake in native AMP now; what stays still does."""
    codes = {line.split()[1] for line in fixture.findings}
    kept = {code for code in codes if code.startswith(("AMP3", "AMP94"))}
    return kept | ({"AMP401"} if "AMP104" in codes else set())


@every_migration
def test_windows_file(fixture: Fixture):
    """A byte order mark, and Windows line ends."""
    result = fixture.migrate(_of_windows(fixture.before))
    assert result.output == _of_windows(fixture.expected)


def _of_windows(content: bytes) -> bytes:
    return codecs.BOM_UTF8 + content.replace(b"\n", b"\r\n")


@every_migration
def test_expected_output_keeps_every_invariant(fixture: Fixture):
    kept_bug = any(" AMP104 " in finding for finding in fixture.findings)
    before, after = Facts.of_module(parse(fixture.before)), Facts.of_module(parse(fixture.expected))
    allowed = {"clip of scaled gradients"} if kept_bug else set()
    own = {(found.kind, found.message) for found in check_module(before, before)}  # of native AMP in the source
    assert [
        one for one in check_module(after, before) if one.kind not in allowed and (one.kind, one.message) not in own
    ] == []
