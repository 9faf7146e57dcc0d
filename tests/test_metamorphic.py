"""A handful of mutants of our fixtures; `python -m tests.metamorphic` has all of them."""

from __future__ import annotations

from tests.metamorphic.campaign import mutant_of, pairs, sampled
from tests.metamorphic.outcome import BROKEN, Mutant, mutated
from tests.metamorphic.program import migrating
from tests.metamorphic.rewrite import every_rewrite

_COUNT = 40  # of which two thirds have something to rewrite
_SEED = 1
_TIME_LIMIT = 60


def test_mutants_are_migrated_or_left():
    found = (mutant_of(*pair, _SEED, _TIME_LIMIT) for pair in sampled(pairs(), _COUNT, _SEED))
    broken = [_told(one) for one in found if one is not None and one.outcome.kind in BROKEN]
    assert not broken, "\n".join(broken)


def _told(mutant: Mutant) -> str:
    again = f"python -m tests.metamorphic --rewrites '{mutant.rewrite}' --fixtures {mutant.fixture} --seed {_SEED}"
    return f"{again}\n    {mutant.outcome.kind}: {'; '.join(mutant.outcome.said)}"


def test_every_rewrite_has_something_to_rewrite():
    """And what it writes is Python, twice the same."""
    fixtures = migrating()
    for name, rewrite in every_rewrite().items():
        made = next((one for one in fixtures if mutated(fixtures[one], rewrite, 0) is not None), None)
        assert made is not None, name
        assert mutated(fixtures[made], rewrite, 0) == mutated(fixtures[made], rewrite, 0)
