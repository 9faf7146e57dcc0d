"""What came of a mutant, beside what comes of the fixture."""

from __future__ import annotations

import ast
import dataclasses
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType
from typing import Literal

from amp_migrate import Options, Result
from tests.fixture import Fixture
from tests.metamorphic.decisions import Decision, decided, differences, is_weaker
from tests.metamorphic.program import migrated, program_of
from tests.metamorphic.rewrite import Rewrite
from tests.unit_fixture import UnitFixture

TIME_LIMIT = 60  # seconds, for one migration

Kind = Literal["alike", "ended", "differs", "weaker", "AMP998", "AMP999", "exception", "hang"]
BROKEN: tuple[Kind, ...] = ("AMP999", "exception", "hang")  # whatever comes of the fixture
EXPECTED: tuple[Kind, ...] = ("alike", "ended")


class Hang(BaseException):
    """A migration did not end in time. No `except Exception` of ours may keep it."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a program: what was decided, or what went wrong. `said` are its findings."""

    decision: Decision | None
    said: tuple[str, ...]
    error: Kind | None = None


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A fixture after a rewrite, and what came of it: `differs` from what comes of the fixture as Python prints it.

    A mutant has `ended` where no more is asked of its rewrite.
    """

    fixture: str
    rewrite: str
    sources: dict[str, bytes]
    kind: Kind
    differs: tuple[str, ...] = ()
    said: tuple[str, ...] = ()


def judged(base: Outcome, mutant: Outcome, rewrite: Rewrite) -> tuple[Kind, tuple[str, ...]]:
    """The kind of a mutant, and what of its decision differs."""
    if mutant.error in BROKEN or base.decision is None or mutant.decision is None:
        return mutant.error or "exception", mutant.said[:1]
    if not rewrite.is_compared:
        return "ended", ()
    found = differences(base.decision, mutant.decision, of_places=not rewrite.moves)
    if not found:
        return "alike", ()
    if mutant.error is not None:
        return mutant.error, found
    return "weaker" if is_weaker(base.decision, mutant.decision) else "differs", found


def mutated(fixture: Fixture | UnitFixture, rewrite: Rewrite, seed: int) -> dict[str, bytes] | None:
    """The files of a fixture after a rewrite; None where it has nothing to rewrite. What comes out has to be Python."""
    program = program_of(fixture)
    if not rewrite.apply(program, Random(f"{seed} {rewrite.name} {program.name}")):
        return None
    for tree in program.files.values():
        ast.fix_missing_locations(tree)
    sources = program.sources
    for path, source in sources.items():
        compile(source, path, "exec", dont_inherit=True)
    return {**program.others, **sources}


def outcome_of(sources: dict[str, bytes], options: Options, limit: float = TIME_LIMIT) -> Outcome:
    """What comes of a program, in so many seconds."""
    try:
        with _limited(limit):
            results = migrated(sources, options)
    except Hang as error:
        return Outcome(None, (str(error),), "hang")
    except (Exception, MemoryError) as error:
        return Outcome(None, (f"{type(error).__name__}: {error} in {_place(error)}",), "exception")
    said = tuple(f"{result.path}:{one.line} {one.code} {one.message}" for result in results for one in result.findings)
    return Outcome(decided(_status(results), results), said, _error(results))


def _status(results: list[Result]) -> str:
    """The worst that came of a file."""
    statuses = {result.status for result in results}
    return next(one for one in ("error", "left", "migrated", "untouched") if one in statuses)


def _error(results: list[Result]) -> Kind | None:
    codes = {finding.code for result in results for finding in result.findings}
    if "AMP999" in codes:
        return "AMP999"
    if "error" in {result.status for result in results}:
        return "exception"
    return "AMP998" if "AMP998" in codes else None


def _place(error: BaseException) -> str:
    """Where an exception was raised, and on which way: the innermost calls."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_code.co_filename.rpartition('amp_migrate/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " > ".join(frames[-4:])


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def end(number: int, frame: FrameType | None) -> None:
        code = frame.f_code if frame is not None else None
        raise Hang(f"in {code.co_filename}:{frame.f_lineno}" if code is not None and frame is not None else "")

    earlier = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
