"""The differences that are known, each with its reason: `known.toml`.

A whole run fails for a difference that is not there, and names those that are there and are gone.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from tests.metamorphic.outcome import EXPECTED, Mutant

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FILE = Path(__file__).with_name("known.toml")


@dataclasses.dataclass(frozen=True)
class Known:
    """Patterns for a rewrite, for what differs, and for the fixtures in which it does."""

    rewrite: str
    differs: str
    fixtures: tuple[str, ...]
    reason: str

    def fits(self, mutant: Mutant) -> bool:
        is_so = fnmatchcase(mutant.rewrite, self.rewrite) and fnmatchcase(told(mutant), self.differs)
        return is_so and any(fnmatchcase(mutant.fixture, one) for one in self.fixtures)

    def is_about(self, mutant: Mutant) -> bool:
        """True where a mutant would show the difference."""
        is_rewrite = fnmatchcase(mutant.rewrite, self.rewrite)
        return is_rewrite and any(fnmatchcase(mutant.fixture, one) for one in self.fixtures)


@cache
def known() -> tuple[Known, ...]:
    """All differences that are known."""
    entries = tomllib.loads(_FILE.read_text(encoding="utf-8"))["difference"]
    return tuple(
        Known(rewrite, differs, tuple(fixtures.split()), entry["reason"])
        for entry in entries
        for rewrite, differs, fixtures in entry["found"]
    )


def told(mutant: Mutant) -> str:
    """What differs, as `known.toml` writes it: the kind, then the differences."""
    return "; ".join((mutant.kind, *mutant.differs))


def is_known(mutant: Mutant) -> bool:
    return mutant.kind in EXPECTED or any(one.fits(mutant) for one in known())


def stale(mutants: Collection[Mutant]) -> Iterator[Known]:
    """What is known to differ and does not, in any of the mutants that would show it."""
    for one in known():
        shown = [mutant for mutant in mutants if one.is_about(mutant)]
        if shown and not any(one.fits(mutant) for mutant in shown):
            yield one
