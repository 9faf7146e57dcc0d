"""The verdict of `verify` on every fixture."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from amp_migrate.verify.pool import Pool
from tests.fixture import Fixture
from tests.test_execution import run_both

# Beside each other: a run is mostly a CPU that prepares and a GPU that waits. Times are not compared here.
_MOST_POOLS = 8
_TIME_LIMIT = 60.0  # seconds for each run of a script


@dataclasses.dataclass(frozen=True)
class FixtureVerdict:
    fixture: str
    verdict: str
    expected: str
    as_expected: bool  # the reason counts, too
    reason: str
    seconds: float


def judge_fixtures(fixtures: list[Fixture], device: str, tell: Callable[[str], None]) -> list[FixtureVerdict]:
    """In the order of `fixtures`; `tell` is given a line when one is ready."""
    own = threading.local()  # each thread has a pool

    def start() -> None:
        own.pool = pools.enter_context(Pool(device))

    def judge(fixture: Fixture) -> FixtureVerdict:
        verdict = _judge(fixture, own.pool)
        tell(f"{fixture.name}: {verdict.verdict}" + (": " + verdict.reason) * (not verdict.as_expected))
        return verdict

    count = min(len(fixtures), _MOST_POOLS, max(1, (os.cpu_count() or 1) // 2))
    with ExitStack() as pools, ThreadPoolExecutor(count, initializer=start) as threads:
        return list(threads.map(judge, fixtures))


def _judge(fixture: Fixture, pool: Pool) -> FixtureVerdict:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = run_both(
            fixture.before, fixture.expected, fixture.arguments, pool, Path(folder), time_limit=_TIME_LIMIT
        )
    as_expected = found.verdict == fixture.verdict and fixture.reason in found.reason
    seconds = time.monotonic() - begin
    reason = found.reason.replace(f"{folder}{os.sep}", "")  # a path of that machine says nothing
    return FixtureVerdict(fixture.name, found.verdict, fixture.verdict, as_expected, reason, seconds)
