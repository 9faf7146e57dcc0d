"""What came of a mutant."""

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
from tests.metamorphic.program import migrated, program_of
from tests.metamorphic.rewrite import Rewrite
from tests.unit_fixture import UnitFixture

TIME_LIMIT = 60  # seconds, for one migration

Kind = Literal["migrated", "left", "untouched", "AMP998", "AMP999", "exception", "hang"]
BROKEN: tuple[Kind, ...] = ("AMP999", "exception", "hang")


class Hang(BaseException):
    """A migration did not end in time. No `except Exception` of ours may keep it."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a program. `said` are its findings, or what went wrong."""

    kind: Kind
    said: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A fixture after a rewrite, and what came of it."""

    fixture: str
    rewrite: str
    sources: dict[str, bytes]
    outcome: Outcome


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
        return Outcome("hang", (str(error),))
    except (Exception, MemoryError) as error:
        return Outcome("exception", (f"{type(error).__name__}: {error}", _place(error)))
    said = tuple(f"{one.path}:{one.line} {one.code} {one.message}" for result in results for one in result.findings)
    return Outcome(_kind(results), said)


def _kind(results: list[Result]) -> Kind:
    """The worst that came of a file."""
    codes = {finding.code for result in results for finding in result.findings}
    statuses = {result.status for result in results}
    if "AMP999" in codes:
        return "AMP999"
    if "error" in statuses:
        return "exception"
    if "AMP998" in codes:
        return "AMP998"
    return "left" if "left" in statuses else "migrated" if "migrated" in statuses else "untouched"


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
