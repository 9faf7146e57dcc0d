"""All mutants, or a sample of them, judged."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

from tests.fixture import Fixture
from tests.structural.cases import Mutant, all_fixtures, cases_of, form_of, mutants_of
from tests.structural.judgement import PROOF, SURVIVED, TYPESTATE, UNDECIDED, Judge
from tests.unit_fixture import UnitFixture

_A_FEW = 5  # mutants of a fixture, where a sample is drawn: to read the fixture takes longer than to judge one
Choice = Callable[[list[Mutant]], list[Mutant]]
VERDICTS = (PROOF, TYPESTATE, UNDECIDED, SURVIVED)


class Outcome(NamedTuple):
    """What became of one mutant."""

    verdict: str
    kind: str
    case: str
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.case} {self.path}:{self.line}: {self.text}"


def fixtures_of(forms: Iterable[str]) -> list[Fixture | UnitFixture]:
    """The fixtures of some source forms, all for none."""
    wanted = set(forms)
    return [one for one in all_fixtures() if not wanted or form_of(one) in wanted]


def judged(fixture: Fixture | UnitFixture, kinds: Collection[str] = (), choose: Choice = list) -> list[Outcome]:
    """What becomes of the mutants of a fixture: of some kinds, all for none, and of these those that are chosen."""
    found = []
    for case in cases_of(fixture):
        judge = Judge(case)
        for mutant in choose([one for one in mutants_of(case) if not kinds or one.kind in kinds]):
            tree = mutant.tree()
            if tree is not None and tree != case.after:
                verdict = judge.verdict(tree)
                found.append(Outcome(verdict, mutant.kind, case.name, mutant.path, mutant.line, mutant.text))
    return found


def sample(forms: Iterable[str], kinds: Collection[str], size: int, seed: str) -> Iterator[Outcome]:
    """About `size` mutants: a few of each of some fixtures, until there are enough."""
    chance = random.Random(seed)
    fixtures = fixtures_of(forms)
    chance.shuffle(fixtures)
    left = size
    for fixture in fixtures:
        outcomes = judged(fixture, kinds, partial(_a_few, chance))
        yield from outcomes
        left -= len(outcomes)
        if left <= 0:
            return


def _a_few(chance: random.Random, mutants: list[Mutant]) -> list[Mutant]:
    """Mutants of different kinds, so that what is common, a number that changed, is no more than what is not."""
    of_kind: dict[str, list[Mutant]] = defaultdict(list)
    for one in mutants:
        of_kind[one.kind].append(one)
    return [chance.choice(of_kind[name]) for name in chance.sample(sorted(of_kind), min(_A_FEW, len(of_kind)))]


def everything(forms: Iterable[str], kinds: Collection[str], workers: int) -> Iterator[Outcome]:
    """All mutants of the fixtures, in their order."""
    with ProcessPoolExecutor(workers) as pool:
        for outcomes in pool.map(partial(judged, kinds=kinds), fixtures_of(forms)):
            yield from outcomes


def table(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """How many of each kind were made, and who refused them."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in outcomes:
        counts[one.kind][one.verdict] += 1
    yield f"| kind | made | {' | '.join(f'{verdict}' for verdict in VERDICTS)} | refused |"
    yield f"|---{'|---:' * (len(VERDICTS) + 2)}|"
    for kind, found in [*sorted(counts.items()), ("all", sum(counts.values(), Counter()))]:
        made = found.total()
        row = " | ".join(str(found[verdict]) for verdict in VERDICTS)
        yield f"| {kind} | {made} | {row} | {100 * refused(found) / made:.1f} % |"


def refused(found: Counter[str]) -> int:
    return found[PROOF] + found[TYPESTATE]
