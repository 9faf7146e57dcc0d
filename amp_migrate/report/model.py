"""What one call of the tool came to: what every output format shows."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import get_args

from amp_migrate.findings import Finding
from amp_migrate.result import Result, Status
from amp_migrate.rules.source_forms import COMPANIONS, TITLES

_WORST_LAST: tuple[Status, ...] = ("untouched", "migrated", "left", "error")


@dataclasses.dataclass(frozen=True)
class Tally:
    """What became of one source form: units by status, and the files and uses in them."""

    units: dict[str, int]
    files: dict[str, int]
    uses: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Report:
    """`results` has one for each file, in the order given; `beside` are findings in files that are no Python.

    `written` says whether the files were changed, or only would be. `spelled` says how native AMP is spelled, and why.
    """

    results: tuple[Result, ...]
    beside: tuple[Finding, ...] = ()
    written: bool = False
    spelled: tuple[str, ...] = ()

    def changes(self) -> Iterator[tuple[str, Result]]:
        """The files that a migration changes, each with the source form of its unit."""
        for unit in self.units():
            form = next((result.form for result in unit if result.form), "")
            yield from ((form, result) for result in unit if result.changed)

    @property
    def findings(self) -> list[Finding]:
        """All of them: those of the units in the order of these, then those beside."""
        return [one for unit in self.units() for result in unit for one in result.findings] + list(self.beside)

    def units(self) -> list[list[Result]]:
        """The results by unit, in the order of the first file of each; a file without a unit is one of its own."""
        found: dict[object, list[Result]] = {}
        for result in self.results:
            found.setdefault(result.unit or result.path, []).append(result)
        return list(found.values())

    @property
    def ignored(self) -> int:
        """How many findings nobody wants to see."""
        return sum(result.ignored for result in self.results)

    def files(self) -> dict[Status, int]:
        """How many files came to what: each is counted once."""
        counts = Counter(result.status for result in self.results)
        return {status: counts[status] for status in get_args(Status)}

    def forms(self) -> Iterator[tuple[str, Tally]]:
        """The source forms that were found, by their codes. A file that has companions beside one counts for both."""
        for form in TITLES:
            if form == COMPANIONS:
                tally = _tally_of_companions(self.results)
            else:
                tally = _tally([unit for unit in self.units() if any(result.form == form for result in unit)])
            if any(tally.units.values()):
                yield form, tally


def _tally(found: list[list[Result]]) -> Tally:
    """A unit counts as the worst of its files."""
    tally = Tally(*({"migrated": 0, "left": 0, "error": 0} for _ in range(3)))
    for unit in found:
        own = [result for result in unit if result.form]
        tally.units[max((result.form_status for result in own), key=_WORST_LAST.index)] += 1
        for result in own:
            tally.files[result.form_status] += 1
            tally.uses[result.form_status] += result.sites
    return tally


def _tally_of_companions(results: tuple[Result, ...]) -> Tally:
    """File by file, as they are migrated; a file in which some use of them stays is one that is left."""
    tally = Tally(*({"migrated": 0, "left": 0, "error": 0} for _ in range(3)))
    for result in results:
        if result.form == COMPANIONS or result.companions[0]:
            found, left = result.companions[0], result.companions_left
            status = "error" if result.status == "error" else "left" if left or not result.changed else "migrated"
            tally.units[status] += 1
            tally.files[status] += 1
            tally.uses["migrated"] += max(0, found - left)
            tally.uses["error" if status == "error" else "left"] += min(found, left)
    return tally
