"""The differences that are known, each with its reason: `known.toml`.

A whole run fails for a difference that is not there, and names those that are there and are gone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.metamorphic.outcome import EXPECTED, Mutant

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FILE = Path(__file__).with_name("known.toml")
Difference = tuple[str, str, str]  # a rewrite, a fixture, and what differs


@cache
def known() -> dict[Difference, str]:
    """The reason of each difference that is known."""
    return {
        (rewrite, fixture, differs): entry["reason"]
        for entry in tomllib.loads(_FILE.read_text(encoding="utf-8"))["difference"]
        for rewrite, differs, fixtures in entry["found"]
        for fixture in fixtures.split()
    }


def told(mutant: Mutant) -> str:
    """What differs, as `known.toml` writes it: the kind, then the differences."""
    return "; ".join((mutant.kind, *mutant.differs))


def is_known(mutant: Mutant) -> bool:
    return mutant.kind in EXPECTED or (mutant.rewrite, mutant.fixture, told(mutant)) in known()


def stale(mutants: Iterable[Mutant]) -> Iterator[Difference]:
    """The known differences that these mutants do not show any more."""
    found = {(one.rewrite, one.fixture): told(one) for one in mutants}
    for rewrite, fixture, differs in known():
        if found.get((rewrite, fixture), differs) != differs:
            yield rewrite, fixture, differs
