"""Many mutants: drawn, made, migrated in processes with a limit of memory."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from random import Random
from zlib import crc32

from amp_migrate.processes import Died, Workers
from tests.metamorphic.outcome import TIME_LIMIT, Mutant, Outcome, judged, mutated, outcome_of
from tests.metamorphic.program import every_fixture, program_of
from tests.metamorphic.rewrite import every_rewrite

_MEMORY_LIMIT = 4 << 30
_IN_TURN = 150_000  # of a size that `Workers` hands to a process
_OF_A_PART = 50  # mutants, for a process
_DOZEN = 12
_PARTS = 4  # for each process, until something is told

Pair = tuple[str, str]  # the names of a fixture and of a rewrite


def pairs(forms: Iterable[str] = (), rewrites: Iterable[str] = (), fixtures: Iterable[str] = ()) -> list[Pair]:
    """Every fixture with every rewrite; of rewrites and fixtures, parts of their names are enough."""
    parts, wanted = tuple(rewrites), tuple(fixtures)
    names = [name for name in every_rewrite() if not parts or any(part in name for part in parts)]
    of = [name for name in every_fixture(frozenset(forms)) if not wanted or any(part in name for part in wanted)]
    return [(fixture, name) for name in names for fixture in of]


def listed() -> list[Pair]:
    """The mutants of one fixture in a dozen: all of their differences stand in `known.toml`, and the tests draw from them."""
    return [pair for pair in pairs() if crc32(pair[0].encode()) % _DOZEN == 0]


def sampled(every: list[Pair], count: int, seed: int) -> list[Pair]:
    """So many of them, drawn in an order that the seed decides."""
    return Random(seed).sample(every, min(count, len(every)))


def mutant_of(fixture: str, rewrite: str, seed: int, limit: float = TIME_LIMIT) -> Mutant | None:
    """A mutant and what came of it; None where the fixture has nothing to rewrite."""
    source = every_fixture()[fixture]
    sources = sources_of(fixture, rewrite, seed)
    if sources is None:
        return None
    made = outcome_of(sources, source.options, limit)
    kind, differs = judged(_base(fixture), made, every_rewrite()[rewrite])
    return Mutant(fixture, rewrite, sources, kind, differs, made.said)


def sources_of(fixture: str, rewrite: str, seed: int) -> dict[str, bytes] | None:
    """The files of a mutant; None where the fixture has nothing to rewrite."""
    return mutated(every_fixture()[fixture], every_rewrite()[rewrite], seed)


@cache
def _base(fixture: str) -> Outcome:
    """What comes of a fixture without a rewrite, as Python prints it."""
    program = program_of(every_fixture()[fixture])
    return outcome_of({**program.others, **program.sources}, program.options)


def run(every: list[Pair], seed: int, workers: int, limit: float = TIME_LIMIT) -> Iterator[Mutant]:
    """What came of these mutants, a few parts at a time. A process that dies takes no other result along."""

    def work(pairs: list[Pair]) -> list[Mutant | None]:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT, _MEMORY_LIMIT))
        return [mutant_of(*pair, seed, limit) for pair in pairs]

    every = sorted(every)  # what comes of a fixture without a rewrite is asked once for a part
    parts = [every[start : start + _OF_A_PART] for start in range(0, len(every), _OF_A_PART)]
    for start in range(0, len(parts), _PARTS * workers):
        some = parts[start : start + _PARTS * workers]
        for part, made in zip(some, Workers(workers).map("mutants", work, some, lambda part: _IN_TURN), strict=True):
            found = [one for pair in part for one in _alone(pair, work)] if isinstance(made, Died) else made
            yield from (one for one in found if one is not None)


def _alone(pair: Pair, work: Callable[[list[Pair]], list[Mutant | None]]) -> list[Mutant | None]:
    """A mutant of a part whose process died, in a process of its own."""
    (made, _) = Workers(2).map("mutant", work, [[pair], []], lambda part: _IN_TURN)
    return [_died(*pair, made)] if isinstance(made, Died) else made


def _died(fixture: str, rewrite: str, error: Died) -> Mutant:
    return Mutant(fixture, rewrite, {}, "exception", said=(str(error),))
