"""Every multi-file fixture: its expected output, file by file, and what that output is worth when it is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from amp_migrate import Result
from amp_migrate.verify.pool import Pool
from amp_migrate.verify.programs import Program
from amp_migrate.verify.runner import Settings
from amp_migrate.verify.session import verify
from tests.totals import assert_adds_up
from tests.unit_fixture import UNIT_FIXTURES, Run, Tree, UnitFixture, write_tree

MIGRATIONS = [fixture for fixture in UNIT_FIXTURES if fixture.changes]
RUNS = [(fixture, run) for fixture in UNIT_FIXTURES for run in fixture.runs]

every_fixture = pytest.mark.parametrize("fixture", UNIT_FIXTURES, ids=lambda fixture: fixture.name)
every_migration = pytest.mark.parametrize("fixture", MIGRATIONS, ids=lambda fixture: fixture.name)
every_run = pytest.mark.parametrize(("fixture", "run"), RUNS, ids=[f"{fixture.name}: {run}" for fixture, run in RUNS])


def test_there_are_enough_fixtures():
    assert len(UNIT_FIXTURES) >= 14
    assert all(fixture.runs for fixture in MIGRATIONS)


@every_fixture
def test_only_files_that_change_are_expected(fixture: UnitFixture):
    assert len(fixture.before) >= 2
    assert all(fixture.before[name] != content for name, content in fixture.changes.items())


@every_fixture
def test_expected_output(fixture: UnitFixture, tmp_path: Path):
    results = fixture.migrate(tmp_path, fixture.before)
    assert _findings(results, tmp_path) == fixture.findings
    assert _decoded(_outputs(results, tmp_path)) == _decoded(_scripts(fixture.expected))
    migrated = [_name(result.path, tmp_path) for result in results if result.status == "migrated"]
    assert migrated == list(fixture.changes)
    if not fixture.changes:
        assert {"left"} == {result.status for result in results if result.status != "untouched"}
    assert_adds_up(results)


@every_migration
def test_second_run_changes_nothing(fixture: UnitFixture, tmp_path: Path):
    results = fixture.migrate(tmp_path, fixture.expected)
    assert _outputs(results, tmp_path) == _scripts(fixture.expected)
    migrated = [result for result in results if _name(result.path, tmp_path) in fixture.changes]
    assert {(result.status, result.findings) for result in migrated} == {("untouched", ())}


@every_migration
def test_windows_line_ends(fixture: UnitFixture, tmp_path: Path):
    results = fixture.migrate(tmp_path, _with_windows_line_ends(fixture.before))
    assert _outputs(results, tmp_path) == _scripts(_with_windows_line_ends(fixture.expected))


@every_run
def test_trains_the_same(fixture: UnitFixture, run: Run, pool: Pool, tmp_path: Path):
    """What stays as it is, is compared with itself: it runs, and nothing in it confuses the recorder."""
    project, outputs = tmp_path / "project", tmp_path / "outputs"
    write_tree(project, fixture.before)
    outputs.mkdir()
    changes = {project / name: content for name, content in fixture.changes.items()}
    programs = [
        Program(title, project / run.script, run.arguments, project, changed)
        for title, changed in (("original", {}), ("migrated", changes))
    ]
    comparison = verify(*programs, Settings(time_limit=120.0), pool, outputs, lambda name, steps: None)
    assert (comparison.verdict, fixture.reason in comparison.reason) == (fixture.verdict, True), comparison.reason
    assert bool(comparison.runs["migrated"].training.low) == run.mixed


def _findings(results: list[Result], root: Path) -> list[str]:
    found = [finding for result in results for finding in result.findings]
    lines = [f"{finding.path}:{finding.line} {finding.code} {finding.message}" for finding in found]
    return [line.replace(f"{root}/", "") for line in lines]


def _outputs(results: list[Result], root: Path) -> Tree:
    return {_name(result.path, root): result.output for result in results}


def _name(path: str, root: Path) -> str:
    return Path(path).relative_to(root).as_posix()


def _scripts(tree: Tree) -> Tree:
    """What is migrated of a project: its Python files."""
    return {name: content for name, content in tree.items() if name.endswith(".py")}


def _decoded(tree: Tree) -> dict[str, str]:
    return {name: content.decode() for name, content in tree.items()}


def _with_windows_line_ends(tree: Tree) -> Tree:
    return {name: content.replace(b"\n", b"\r\n") for name, content in tree.items()}
