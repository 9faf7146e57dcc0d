"""A sample of the mutants of our fixtures, another one for each commit; `python -m tests.metamorphic` has all of them."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest

from amp_migrate import Options
from tests.metamorphic.campaign import listed, mutant_of, pairs, sampled
from tests.metamorphic.decisions import Decision, differences, is_weaker
from tests.metamorphic.known import is_known, known, stale, told
from tests.metamorphic.outcome import BROKEN, Mutant, mutated, outcome_of
from tests.metamorphic.program import ALONE, every_fixture
from tests.metamorphic.rewrite import every_rewrite

_COUNT = 100  # of which two thirds have something to rewrite
_TIME_LIMIT = 60
_SILENT_OR_BROKEN = ("weaker", *BROKEN)  # named fixture by fixture where they are known

_SCRIPT = """
import torch
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        return self.first(x)

net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4).cuda()
    loss = {}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_LOSS = "F.mse_loss(net(x), x)"


def _seed() -> str:
    """The commit, so that time finds what one sample does not."""
    told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    return told.stdout.strip() or "no commit"


def test_mutants_are_decided_as_their_fixture():
    seed = int.from_bytes(_seed().encode(), "big")
    found = (mutant_of(*pair, seed, _TIME_LIMIT) for pair in sorted(sampled(listed(), _COUNT, seed)))
    others = [_told(one, seed) for one in found if one is not None and not is_known(one)]
    assert not others, "\n".join(others)


def _told(mutant: Mutant, seed: int) -> str:
    again = f"python -m tests.metamorphic --rewrites '{mutant.rewrite}' --fixtures {mutant.fixture} --seed {seed}"
    return f"{again}\n    {told(mutant)}\n    {'; '.join(mutant.said)}"


@pytest.mark.parametrize("name", every_rewrite())
def test_every_rewrite_has_something_to_rewrite(name):
    """And what it writes is Python, twice the same."""
    fixtures, rewrite = every_fixture(), every_rewrite()[name]
    made = next((one for one in fixtures if mutated(fixtures[one], rewrite, 0) is not None), None)
    assert made is not None
    assert mutated(fixtures[made], rewrite, 0) == mutated(fixtures[made], rewrite, 0)


# -- what is compared ---------------------------------------------------------------------------------------


def _decision(loss: str) -> Decision:
    found = outcome_of({ALONE: _SCRIPT.format(loss).encode()}, Options(api="torch.amp")).decision
    assert found is not None
    return found


def test_a_decision_is_read_from_the_output():
    decision = _decision(_LOSS)
    assert decision.status == "migrated"
    counts = {"regions": 1, "scale": 1, "step": 1, "update": 1, "scalers": 1}
    assert decision.counts == {**counts, "modules in regions": 1, "functions in regions": 1}


@pytest.mark.parametrize(
    ("counts", "findings", "weaker"),
    [
        ({"regions": 1, "islands and casts": 1}, {}, False),
        ({"regions": 1}, {}, True),
        ({"regions": 1}, {"AMP106": 1}, False),
        ({"regions": 2, "islands and casts": 2}, {}, False),
    ],
)
def test_a_protection_that_is_lost_without_a_finding_is_silent(counts, findings, weaker):
    base = Decision.of("migrated", {"regions": 1, "islands and casts": 1}, {})
    mutant = Decision.of("migrated", counts, findings)
    assert is_weaker(base, mutant) is weaker


def test_a_refusal_that_is_lost_is_silent():
    left, migrated = Decision.of("left", {}, {"AMP911": 1}), Decision.of("migrated", {}, {"AMP103": 1})
    assert is_weaker(left, migrated)
    assert not is_weaker(migrated, left)
    assert differences(migrated, left) == ("migrated -> left", "AMP103 1 -> 0", "AMP911 0 -> 1")


# -- what is known ------------------------------------------------------------------------------------------


def test_known_differences_have_reasons_and_name_what_there_is():
    for one in known():
        assert one.reason.endswith("."), one
        assert any(map(partial(_is_about, one.rewrite), every_rewrite())), one.rewrite
        named = [name for name in one.fixtures if "*" not in name]
        assert set(named) <= {*every_fixture()}
        assert named or not one.differs.startswith(_SILENT_OR_BROKEN), "what is silent is named fixture by fixture"


def _is_about(pattern: str, name: str) -> bool:
    return pattern.rstrip("*") in name


def test_what_is_known_and_gone_is_stale():
    for one in known()[:1]:
        shown = Mutant(one.fixtures[0].replace("*", "x"), one.rewrite.replace("*", ""), {}, "alike")
        assert one in {*stale([shown])}


def test_samples_are_drawn_by_their_seed():
    every = pairs()
    assert sampled(every, 9, 1) == sampled(every, 9, 1) != sampled(every, 9, 2)
