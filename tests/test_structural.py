"""Structural mutants of what is written are refused before it is written; all of them: `python -m tests.structural`."""

from __future__ import annotations

from collections import Counter

from tests.structural.judgement import SURVIVED, UNDECIDED
from tests.structural.suite import refused, sample

_SEED = "docs"  # docs/mutants.md has what other seeds came to
_HOW_MANY = 800  # of 400, a handful that one fixture has undecided decides
_LEAST = 0.97


def test_static_checks_refuse_structural_mutants():
    outcomes = list(sample((), (), _HOW_MANY, _SEED))
    found = Counter(one.verdict for one in outcomes)
    alive = "\n".join(str(one) for one in outcomes if one.verdict in (UNDECIDED, SURVIVED))
    assert len(outcomes) >= _HOW_MANY
    assert refused(found) / len(outcomes) >= _LEAST, f"{found}, alive:\n{alive}"
