"""No false alarm: every migrating fixture, over several seeds.

    python -m tests.seeds [a part of the fixtures' names, as half/]

prints the verdicts, and how close correct pairs come to each threshold: value / threshold, 1 is the limit.
"""

from __future__ import annotations

import collections
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from amp_migrate.verify.comparison import Comparison, Line
from amp_migrate.verify.form import form_of
from amp_migrate.verify.pool import Pool
from tests.fixture import FIXTURES, PAIRS, Fixture
from tests.test_execution import run_both

SEEDS = range(101, 106)
_SEEDING = re.compile(rb"\b(manual_seed|random\.seed)\([^()]*\)")
_LIMIT = re.compile(r"([<>]=) (\d\.\d+(?:e[-+]\d+)?)")


def run_seeded(fixture: Fixture, seed: int, pool: Pool, folder: Path) -> Comparison:
    """Both contents of a fixture with this seed in every call that seeds a generator."""
    contents = []
    for content in (fixture.before, fixture.expected):
        seeded, count = _SEEDING.subn(rb"\g<1>(%d)" % seed, content)
        assert count, f"{fixture.name} seeds no generator: all seeds would run the same"
        contents.append(seeded)
    return run_both(*contents, fixture.arguments + fixture.guard, pool, folder, seed=seed)


def ratio(line: Line) -> float | None:
    """How much of its threshold a line uses up; None for lines that are no measurement."""
    limit = _LIMIT.fullmatch(line.threshold)
    if limit is None:
        return None
    at_most, threshold = limit[1] == "<=", float(limit[2])
    value = float(line.number)
    return value / threshold if at_most else threshold / max(value, 1e-9)


def main(part: str = "") -> None:
    verdicts: dict[str, list[str]] = collections.defaultdict(list)
    ratios: dict[tuple[str, str], list[tuple[float, str]]] = collections.defaultdict(list)
    with Pool("cpu") as pool:
        for fixture in [one for one in (*FIXTURES, *PAIRS) if part in one.name]:
            for seed in SEEDS if fixture.migrates else ():
                with tempfile.TemporaryDirectory() as folder:
                    comparison = run_seeded(fixture, seed, pool, Path(folder))
                verdicts[fixture.name].append(comparison.verdict)
                _tell_unexpected(fixture, seed, comparison)
                if fixture.verdict == "same":
                    for key, one, where in _measured(comparison):
                        ratios[key].append((one, f"{fixture.name} {seed}: {where}"))
    _print_verdicts(verdicts)
    _print_ratios(ratios)


def _measured(comparison: Comparison) -> Iterator[tuple[tuple[str, str], float, str]]:
    """(line, source form), how much of its threshold it uses up, and its text."""
    form = form_of(comparison.runs["original"])
    for line in comparison.lines():
        one = ratio(line)
        if one is not None:
            yield (line.check.partition(" of optimizer")[0], form), one, str(line)


def _tell_unexpected(fixture: Fixture, seed: int, comparison: Comparison) -> None:
    if comparison.verdict != fixture.verdict:
        print(f"{fixture.name}, seed {seed}: {comparison.verdict} instead of {fixture.verdict}: {comparison.reason}")
    for line in comparison.lines() if comparison.verdict == "same" else ():
        if line.status == "warning":
            print(f"{fixture.name}, seed {seed}: {line}")


def _print_verdicts(verdicts: dict[str, list[str]]) -> None:
    print("\n| fixture | verdicts |\n|---|---|")
    for name, found in verdicts.items():
        counts = collections.Counter(found)
        print(f"| {name} | {', '.join(f'{count} {verdict}' for verdict, count in counts.items())} |")
    print(f"\n{len(verdicts)} fixtures, {sum(map(len, verdicts.values()))} comparisons")


def _print_ratios(ratios: dict[tuple[str, str], list[tuple[float, str]]]) -> None:
    print("\n| line | source form | measured | median | largest value / threshold | where |\n|---|---|---|---|---|---|")
    for (check, form), found in ratios.items():
        found.sort()
        middle, (worst, where) = found[len(found) // 2][0], found[-1]
        print(f"| {check} | {form} | {len(found)} | {middle:.2g} | {worst:.2g} | {where} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
